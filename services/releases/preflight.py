"""What a rollout would meet, before it is made: who matches, who runs the bundle already, who is left out and why.

Nothing is written, and the checks are those of the start itself, so that a clean answer is a start that works.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.wire.releases import RolloutRequest
from services.kit.auth import Subject
from services.kit.problems import Problem
from services.releases import bundles, fleet, rollouts
from services.releases.domain.machine import ACTIVE
from services.releases.domain.plan import exposed
from services.releases.models import Device, RolloutRow


class PlannedStage(BaseModel):
    """A stage as it would be planned; early ones are widened where a verdict needs more devices."""

    basis_points: int
    devices: int


class Preflight(BaseModel):
    """Counts of known devices. `excluded` says how many are left out, by reason; `obstacles` what forbids a start."""

    enrolled: int
    matching: int
    by_class: dict[str, int]
    already: int
    on_another_bundle: int
    on_no_bundle: int
    excluded: dict[str, int]
    stages: list[PlannedStage]
    supersedes: str | None
    obstacles: list[str]


def preflight(session: Session, subject: Subject, request: RolloutRequest) -> Preflight:
    """Look ahead. Raises UnknownBundle and BadSelector, as the rollout itself would."""
    bundle = bundles.find(session, request.digest)
    fleet.check_selector(request.selector)
    rollouts.check_stages(request.stages)
    found = fleet.eligible(session, request.selector, secrets.token_hex(8), bundle.digest)
    enrolled = session.scalar(select(func.count()).select_from(Device)) or 0
    checks: tuple[Callable[[], None], ...] = (
        lambda: rollouts.check_room(session),
        lambda: rollouts.check_releasable(session, bundle, subject),
        lambda: rollouts.check_reach(request.selector, bundle, found),
    )
    points = rollouts.plan(request.stages, request.min_devices, found) if found.count else ()
    devices = [sum(exposed(found.buckets, one).values()) for one in points]
    return Preflight(
        enrolled=enrolled,
        matching=found.count,
        by_class=found.sizes,
        already=found.already,
        on_another_bundle=found.on_another,
        on_no_bundle=found.count - found.already - found.on_another,
        excluded=_excluded(session, request, enrolled - found.count),
        stages=[PlannedStage(basis_points=one, devices=count) for one, count in zip(points, devices, strict=True)],
        supersedes=_running(session, rollouts.selector_key(request.selector)),
        obstacles=[words for words in map(_obstacle, checks) if words],
    )


def _obstacle(check: Callable[[], None]) -> str:
    try:
        check()
    except Problem as problem:
        return problem.detail
    return ""


def _excluded(session: Session, request: RolloutRequest, rest: int) -> dict[str, int]:
    """Devices that one tag alone leaves out; a device that fails several counts under each."""
    found = {}
    for name, values in request.selector.items():
        query = select(func.count()).select_from(Device).where(Device.tags[name].astext.not_in(list(values)))
        count = session.scalar(query) or 0
        if count:
            found[f"{name} is none of {', '.join(sorted(values))}"] = count
    return found if rest else {}


def _running(session: Session, key: str) -> str | None:
    query = select(RolloutRow.id).where(RolloutRow.state.in_(ACTIVE), RolloutRow.selector_key == key)
    return session.scalars(query.limit(1)).first()
