"""Rollouts: create, start, act, and apply what a tick decided. Each function is part of the caller's transaction.

Locks are taken in one order (rollouts by id, then the fleet-wide row), so that operators and ticks cannot block
each other for ever. Every change of state or stage raises `version`, writes to the audit trail and, where devices
are concerned, publishes a new state document in the same transaction.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from contracts.state import MAX_ROLLOUTS
from contracts.wire.releases import RolloutRequest, RolloutState
from services.kit.audit import record
from services.kit.auth import Subject
from services.releases import bundles, fleet, production, service, state_document
from services.releases.decisions import POLICY, SYSTEM
from services.releases.domain.machine import ACTIVE, Event, IllegalTransition, after
from services.releases.domain.plan import exposed, plan_stages
from services.releases.errors import (
    BadSelector,
    NobodyMatches,
    NotReleasable,
    UnknownRollout,
    VersionMismatch,
    WrongState,
)
from services.releases.models import Alert, BundleRow, Control, RolloutRow, StageRow
from services.releases.verdict import clean_canary

Actor = Subject | str


def create(session: Session, subject: Subject, request: RolloutRequest) -> RolloutRow:
    """A new draft, started at once when the request says so."""
    bundle = bundles.find(session, request.digest)
    check_releasable(session, bundle, subject)
    fleet.check_selector(request.selector)
    check_stages(request.stages)
    selector = {name: sorted(values) for name, values in sorted(request.selector.items())}
    row = RolloutRow(
        id=f"r-{secrets.token_hex(6)}",
        digest=bundle.digest,
        state=RolloutState.DRAFT,
        selector=selector,
        selector_key=selector_key(selector),
        requested=list(request.stages),
        salt=secrets.token_hex(8),
        soak_s=request.soak_s,
        min_devices=request.min_devices,
        silent_after_s=request.silent_after_s,
        reason=request.reason,
        created_by=str(subject),
        created=service.clock().now(),
        stage=0,
        version=1,
        human_actions=int(subject.kind == "operator"),
        verdict="",
        cause="",
        first_release=False,
        standing=False,
    )
    session.add(row)
    session.flush()
    record(session, subject, "rollout.created", _name(row), {"digest": row.digest, "selector": selector})
    if request.auto_start:
        start(session, subject, row)
    return row


def start(session: Session, subject: Subject, row: RolloutRow) -> None:
    """Pre-flight, plan the stages, put an older rollout for the same devices aside, and expose the first stage."""
    following = _after(row, Event.START)
    _queue_for(session, row.selector_key)
    check_room(session)
    bundle = bundles.find(session, row.digest)
    check_releasable(session, bundle, subject)
    found = fleet.eligible(session, row.selector, row.salt, row.digest)
    check_reach(row.selector, bundle, found)
    _supersede(session, subject, row)
    row.first_release = found.on_another == 0
    points = plan(row.requested, row.min_devices, found)
    for index, basis_points in enumerate(points):
        session.add(StageRow(rollout_id=row.id, index=index, basis_points=basis_points, targeted={}, fleet={}))
    row.state = following
    session.flush()
    _enter(session, row, 0, found)
    detail = {"eligible": found.sizes, "already": found.already, "stages": list(points)}
    record(session, subject, "rollout.started", _name(row), detail)
    if found.already == found.count:
        complete(session, row, "every matching device already runs this bundle", subject)
        return
    state_document.publish(session)


def plan(requested: Sequence[int], min_devices: int, found: fleet.Eligible) -> tuple[int, ...]:
    """Stages in basis points, fitted to the devices that were found."""
    return plan_stages(
        requested,
        found.buckets,
        min_devices,
        POLICY.minimum_canary,
        POLICY.stratum_share,
        lambda share: clean_canary(POLICY, share, found.count),
    )


def selector_key(selector: fleet.Selector) -> str:
    """The selector as text: the same devices, the same key."""
    plain = {name: sorted(values) for name, values in selector.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def act(
    session: Session, subject: Subject, rollout_id: str, event: Event, reason: str, version: int | None
) -> RolloutRow:
    """An operator's (or a service's) start, pause, resume or roll back; `version` is what the caller has seen."""
    row = locked(session, rollout_id)
    if version is not None and version != row.version:
        raise VersionMismatch(f"rollout {row.id} is at version {row.version}, you have seen {version}; look again")
    row.human_actions += subject.kind == "operator"
    match event:
        case Event.START:
            start(session, subject, row)
        case Event.PAUSE:
            pause(session, row, reason, subject)
        case Event.RESUME:
            resume(session, row, reason, subject)
        case _:
            roll_back(session, row, reason, subject)
    row.version += 1
    session.flush()
    return row


def advance(session: Session, row: RolloutRow, why: str) -> None:
    """Expose the next stage."""
    row.state = _after(row, Event.ADVANCE)
    _leave(session, row)
    found = fleet.eligible(session, row.selector, row.salt, row.digest)
    _enter(session, row, row.stage + 1, found)
    row.verdict = "promote"
    row.version += 1
    record(session, SYSTEM, "rollout.advanced", _name(row), {"stage": row.stage, "why": why})
    state_document.publish(session)


def complete(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM) -> None:
    """The bundle becomes what its devices run: the baseline, or a standing entry for a part of the fleet."""
    row.state = _after(row, Event.COMPLETE)
    _leave(session, row)
    row.verdict, row.finished, row.cause = "promote", service.clock().now(), why
    row.version += 1
    control = state_document.lock_control(session)
    replaced = [RolloutRow.standing, RolloutRow.id != row.id]
    if row.selector:
        row.standing = True
        replaced.append(RolloutRow.selector_key == row.selector_key)
    older = session.scalars(select(RolloutRow).where(*replaced)).all()
    row.previous_digest = older[0].digest if row.selector and older else control.baseline_digest
    for other in older:
        other.standing = False
    if not row.selector:
        control.baseline_digest = row.digest
        production.announce(session, row.digest, f"completed-{row.id}")
    record(session, actor, "rollout.completed", _name(row), {"why": why})
    state_document.publish(session)


def pause(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM) -> None:
    """Devices keep what they have; no more are exposed."""
    row.state = _after(row, Event.PAUSE)
    row.cause = why
    record(session, actor, "rollout.paused", _name(row), {"why": why})
    if actor == SYSTEM:
        row.verdict = "inconclusive"
        row.version += 1
        _alert(session, "rollout.paused", row, why)


def resume(session: Session, row: RolloutRow, why: str, actor: Actor) -> None:
    """The stage begins anew: soak and patience start over, evidence is kept."""
    row.state = _after(row, Event.RESUME)
    row.cause = ""
    stage = stages(session, row.id)[row.stage]
    stage.entered, stage.entered_at = service.clock().now(), datetime.now(UTC)
    record(session, actor, "rollout.resumed", _name(row), {"why": why})


def roll_back(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM, verdict: str = "withdrawn") -> None:
    """Take the bundle back: its entry leaves the state document, devices return to what they ran before."""
    was_completed = row.state == RolloutState.COMPLETED
    row.state = _after(row, Event.ROLL_BACK)
    _leave(session, row)
    row.verdict, row.cause, row.finished = verdict, why, service.clock().now()
    row.standing = False
    if actor == SYSTEM:
        row.version += 1
    control = state_document.lock_control(session)
    if was_completed and control.baseline_digest == row.digest:
        control.baseline_digest = row.previous_digest
        production.announce(session, row.previous_digest, f"withdrawn-{row.id}-{row.version}")
    record(session, actor, "rollout.rolled-back", _name(row), {"why": why, "stage": row.stage})
    _alert(session, "rollout.rolled-back", row, why)
    state_document.publish(session)


def kill(session: Session, row: RolloutRow, why: str, subject: Subject) -> None:
    """End a rollout in progress for good; the caller publishes the state document."""
    row.state = _after(row, Event.KILL)
    _leave(session, row)
    row.cause, row.finished = why, service.clock().now()
    row.version += 1
    row.human_actions += subject.kind == "operator"
    record(session, subject, "rollout.killed", _name(row), {"why": why})


def locked(session: Session, rollout_id: str) -> RolloutRow:
    """The rollout, locked for a change; raises UnknownRollout."""
    row = session.get(RolloutRow, rollout_id, with_for_update={"key_share": True}, populate_existing=True)
    if row is None:
        raise UnknownRollout(f"there is no rollout {rollout_id}; list them with GET /releases/v1/rollouts")
    return row


def stages(session: Session, rollout_id: str) -> list[StageRow]:
    """The stages in order."""
    query = select(StageRow).where(StageRow.rollout_id == rollout_id).order_by(StageRow.index)
    return list(session.scalars(query))


def _enter(session: Session, row: RolloutRow, index: int, found: fleet.Eligible) -> None:
    row.stage = index
    stage = stages(session, row.id)[index]
    stage.entered, stage.entered_at = service.clock().now(), datetime.now(UTC)
    stage.fleet, stage.targeted = found.sizes, exposed(found.buckets, stage.basis_points)


def _leave(session: Session, row: RolloutRow) -> None:
    left = stages(session, row.id)
    if left:
        left[row.stage].left = service.clock().now()


def _queue_for(session: Session, selector_key: str) -> None:
    """Starts for the same devices come one by one, so that the later one sees what it supersedes."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"releases.start:{selector_key}"})


def check_room(session: Session) -> None:
    """The kill switch is off and the state document has room for one more entry."""
    if session.get_one(Control, state_document.CONTROL_ID, populate_existing=True).killed:
        raise WrongState("the kill switch is on, so no evidence can come; lift it first")
    taken = select(func.count()).where(RolloutRow.state.in_(ACTIVE) | RolloutRow.standing)
    if (session.scalar(taken) or 0) >= MAX_ROLLOUTS:
        raise WrongState(f"{MAX_ROLLOUTS} releases hold for parts of the fleet already; end one, or release to all")


def _supersede(session: Session, subject: Subject, row: RolloutRow) -> None:
    condition = (RolloutRow.state.in_(ACTIVE), RolloutRow.selector_key == row.selector_key)
    older = session.scalars(select(RolloutRow).where(*condition).with_for_update(key_share=True)).all()
    for other in older:
        roll_back(session, other, f"superseded by {row.id}", subject, verdict="superseded")
        other.version += 1
    session.flush()


def check_reach(selector: fleet.Selector, bundle: BundleRow, found: fleet.Eligible) -> None:
    """Somebody matches, and the bundle has programs for all who do; raises NobodyMatches."""
    if not found.count:
        raise NobodyMatches(f"the selector {selector or 'for all'} matches none of the enrolled devices")
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


def _after(row: RolloutRow, event: Event) -> RolloutState:
    try:
        return after(RolloutState(row.state), event)
    except IllegalTransition as error:
        raise WrongState(str(error)) from error


def _alert(session: Session, kind: str, row: RolloutRow, why: str) -> None:
    session.add(Alert(kind=kind, subject=_name(row), detail=why[:2_000], created=service.clock().now()))


def _name(row: RolloutRow) -> str:
    return f"rollout:{row.id}"
