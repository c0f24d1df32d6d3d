"""What a rollout would meet, before it is made: who matches, who runs the bundle already, who is left out and why.

Nothing is written, and the checks are those of the start itself, so that a clean answer is a start that works.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pydantic import BaseModel
from sqlalchemy import func, not_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from contracts.state import Audience, LayerSlice
from contracts.targeting import All, Rule, parse, render
from contracts.wire.releases import RolloutRequest
from services.kit.auth import Subject
from services.kit.problems import Problem
from services.releases import audience, bundles, checks, fleet, layers, rollouts, service
from services.releases.domain.machine import ACTIVE
from services.releases.domain.plan import exposed
from services.releases.models import BundleRow, Device, RolloutRow
from services.releases.rule_sql import condition

READ = 10_000
"""Devices whose last polls are read at once."""


class Polls(Protocol):
    """When devices last polled."""

    def of(self, device_ids: Iterable[str]) -> Mapping[str, float]:
        """Clock time of the last poll of those of these devices of which it is known."""


class PlannedStage(BaseModel):
    """A stage as it would be planned; early ones are widened where a verdict needs more devices."""

    basis_points: int
    devices: int


class Preflight(BaseModel):
    """Counts of known devices. `excluded` says how many are left out, by reason; `obstacles` what forbids a start.

    `silent`: devices that match and were not heard for as long as the rollout would wait for one.
    """

    enrolled: int
    matching: int
    by_class: dict[str, int]
    already: int
    on_another_bundle: int
    on_no_bundle: int
    silent: int
    excluded: dict[str, int]
    stages: list[PlannedStage]
    supersedes: str | None
    obstacles: list[str]


def preflight(session: Session, subject: Subject, request: RolloutRequest, polls: Polls) -> Preflight:
    """Look ahead. Raises UnknownBundle, UnknownLayer and BadSelector, as the rollout itself would."""
    bundle = bundles.find(session, request.digest)
    audience.check(request)
    checks.check_stages(request.stages)
    obstacles: list[str] = []
    meant = Audience(
        selector=request.selector,
        rule=audience.normal_rule(request.rule),
        layer=_slice(session, request, obstacles),
    )
    found = fleet.eligible(session, meant, secrets.token_hex(8), bundle.digest)
    enrolled = session.scalar(select(func.count()).select_from(Device)) or 0
    tests: tuple[Callable[[], None], ...] = (
        lambda: checks.check_room(session),
        lambda: checks.check_releasable(session, bundle, subject),
        lambda: checks.check_reach(meant, bundle, found),
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
        silent=_silent(session, meant, request.silent_after_s, polls),
        excluded=_excluded(session, request, meant, bundle, found) if enrolled else {},
        stages=[PlannedStage(basis_points=one, devices=count) for one, count in zip(points, devices, strict=True)],
        supersedes=_running(session, audience.selector_key(request)),
        obstacles=[*obstacles, *(words for words in map(_obstacle, tests) if words)],
    )


def _slice(session: Session, request: RolloutRequest, obstacles: list[str]) -> LayerSlice | None:
    """The part of the layer that a start would get; an obstacle where there is none."""
    layer = layers.find(session, request.layer)
    if layer is None:
        return None
    try:
        low, high = layers.prospect(session, layer.name, request.layer_share, audience.selector_key(request))
    except Problem as problem:
        obstacles.append(problem.detail)
        return None
    return LayerSlice(salt=layer.salt, low=low, high=high)


def _obstacle(check: Callable[[], None]) -> str:
    try:
        check()
    except Problem as problem:
        return problem.detail
    return ""


def _excluded(
    session: Session, request: RolloutRequest, meant: Audience, bundle: BundleRow, found: fleet.Eligible
) -> dict[str, int]:
    """Devices that a tag, a part of the rule, the layer or the bundle leaves out; who fails several counts in each."""
    reasons = {}
    for name, values in request.selector.items():
        left_out = Device.tags[name].astext.not_in(list(values))
        reasons[f"{name} is none of {', '.join(sorted(values))}"] = _count(session, left_out)
    for part in _parts(parse(meant.rule)) if meant.rule else ():
        reasons[f"the rule wants {render(part)}"] = _count(session, not_(condition(part)))
    reasons |= _elsewhere(session, request.layer, found.outside)
    for name, size in found.sizes.items():
        if name not in bundle.targets:
            reasons[f"the bundle has no program for {name}"] = size
    return {reason: count for reason, count in reasons.items() if count}


def _parts(rule: Rule) -> tuple[Rule, ...]:
    return rule.parts if isinstance(rule, All) else (rule,)


def _count(session: Session, left_out: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(Device).where(left_out)) or 0


def _elsewhere(session: Session, name: str, outside: Iterable[int]) -> dict[str, int]:
    """Devices outside of the slice, by who holds their place in the layer."""
    reasons: dict[str, int] = {}
    held = layers.claims(session, name) if name else []
    for place in outside:
        holder = next((one.rollout_id for one in held if one.low <= place < one.high), "")
        reason = f"layer {name}: held by {holder}" if holder else f"layer {name}: in its free part"
        reasons[reason] = reasons.get(reason, 0) + 1
    return reasons


def _silent(session: Session, meant: Audience, silent_after_s: float, polls: Polls) -> int:
    """Who neither reported nor polled nor joined since."""
    since = service.clock().now() - silent_after_s
    heard = func.greatest(Device.last_feedback, Device.enrolled)  # passes over what is unknown
    quiet = [row.id for row in session.execute(fleet.matching(meant).where(heard < since))]
    inside = [one for one in quiet if meant.layer is None or meant.layer.holds(one)]
    return sum(_quiet(polls, inside[at : at + READ], since) for at in range(0, len(inside), READ))


def _quiet(polls: Polls, some: list[str], since: float) -> int:
    known = polls.of(some)
    return sum(known.get(one, -math.inf) < since for one in some)


def _running(session: Session, key: str) -> str | None:
    query = select(RolloutRow.id).where(RolloutRow.state.in_(ACTIVE), RolloutRow.selector_key == key)
    return session.scalars(query.limit(1)).first()
