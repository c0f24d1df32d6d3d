"""What must hold before a rollout starts. The look ahead asks the same: a clean answer is a start that works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.state import MAX_DOCUMENT_BYTES, MAX_REVOKED, MAX_ROLLOUTS, Audience
from services.kit.auth import Subject
from services.releases import fleet, state_document
from services.releases.domain.machine import ACTIVE
from services.releases.domain.plan import plan_stages
from services.releases.errors import BadSelector, NobodyMatches, NotReleasable, WrongState
from services.releases.models import BundleRow, Control, RolloutRow

REVOKED_BYTES = 136
"""Of the signed document, for one digest: 99 characters in base64, rounded up."""


def check_room(session: Session) -> None:
    """The kill switch is off and the state document has room for one more entry."""
    if session.get_one(Control, state_document.CONTROL_ID, populate_existing=True).killed:
        raise WrongState("the kill switch is on, so no evidence can come; lift it first")
    taken = select(func.count()).where(RolloutRow.state.in_(ACTIVE) | RolloutRow.standing)
    if (session.scalar(taken) or 0) >= MAX_ROLLOUTS:
        raise WrongState(f"{MAX_ROLLOUTS} releases hold for parts of the fleet already; end one, or release to all")


def check_document(served: state_document.Served, revoked: int) -> None:
    """The signed document has room for every bundle that may yet be revoked; raises WrongState."""
    spare = (MAX_REVOKED - revoked) * REVOKED_BYTES
    if len(served.document) + spare > MAX_DOCUMENT_BYTES:
        raise WrongState("rules and selectors fill the state document; end a rollout, or use shorter rules")


def check_reach(audience: Audience, bundle: BundleRow, found: fleet.Eligible) -> None:
    """Somebody matches, and the bundle has programs for all who do; raises NobodyMatches."""
    if not found.count:
        raise NobodyMatches(f"{words(audience)} matches none of the enrolled devices")
    foreign = {name: size for name, size in found.sizes.items() if name not in bundle.targets}
    if foreign:
        meant = ", ".join(f"{size} of class {name}" for name, size in sorted(foreign.items()))
        have = ", ".join(bundle.targets)
        raise NobodyMatches(f"the bundle has programs for {have}; select those classes, or build it for: {meant}")


def check_releasable(session: Session, bundle: BundleRow, subject: Subject) -> None:
    """Neither revoked nor, for a machine, rolled back before; raises NotReleasable."""
    if bundle.revoked:
        raise NotReleasable(f"bundle {bundle.digest[:16]}... was revoked")
    if subject.kind == "operator":
        return
    condition = (RolloutRow.digest == bundle.digest, RolloutRow.verdict == "rollback")
    failed: Sequence[Any] = session.scalars(select(RolloutRow.id).where(*condition).limit(1)).all()
    if failed:
        raise NotReleasable(f"the verdict rolled this bundle back in {failed[0]}; only a person may try it again")


def check_stages(requested: Sequence[int]) -> None:
    """Stages grow within the range; raises BadSelector."""
    try:
        plan_stages(requested, {}, 1, 1, 1.0, lambda share: 1)
    except ValueError as error:
        raise BadSelector(str(error)) from error


def words(audience: Audience) -> str:
    """The audience in words, for a message."""
    parts = [f"the selector {audience.selector or 'for all'}"]
    if audience.rule:
        parts = [*(parts if audience.selector else []), f"the rule {audience.rule}"]
    if audience.layer:
        parts.append(f"the slice {audience.layer.low}-{audience.layer.high} of its layer")
    return " with ".join(parts)
