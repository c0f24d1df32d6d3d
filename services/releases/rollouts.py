"""Rollouts: create, start, act, and apply what a tick decided. Each function is part of the caller's transaction.

Locks are taken in one order (rollouts by id, then the fleet-wide row), so that operators and ticks cannot block
each other for ever. Every change of state or stage raises `version`, writes to the audit trail and, where devices
are concerned, publishes a new state document in the same transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from contracts.state import Audience
from contracts.wire.releases import RolloutRequest, RolloutState
from services.kit.audit import record
from services.kit.auth import Subject
from services.releases import audience, bundles, checks, fleet, layers, production, service, state_document
from services.releases.decisions import POLICY, SYSTEM
from services.releases.domain.machine import ACTIVE, Event, IllegalTransition, after
from services.releases.domain.plan import exposed, plan_stages
from services.releases.errors import NotApproved, UnknownRollout, VersionMismatch, WrongState
from services.releases.models import Alert, RolloutRow, StageRow
from services.releases.verdict import clean_canary

Actor = Subject | str


def create(session: Session, subject: Subject, request: RolloutRequest) -> RolloutRow:
    """A new draft, started at once when the request says so; where two people decide, the second one starts it."""
    bundle = bundles.find(session, request.digest)
    checks.check_releasable(session, bundle, subject)
    audience.check(request)
    checks.check_stages(request.stages)
    layers.find(session, request.layer)
    selector = {name: sorted(values) for name, values in sorted(request.selector.items())}
    row = RolloutRow(
        id=f"r-{secrets.token_hex(6)}",
        digest=bundle.digest,
        state=RolloutState.DRAFT,
        selector=selector,
        selector_key=audience.selector_key(request),
        rule=audience.normal_rule(request.rule),
        layer=request.layer or None,
        layer_share=request.layer_share,
        auto_start=request.auto_start,
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
    detail = {"digest": row.digest, "selector": selector, "rule": row.rule, "layer": row.layer}
    record(session, subject, "rollout.created", _name(row), detail)
    if service.needs_second_person():
        row.cause = "waits for the approval of a second person"
        alert(session, "rollout.waiting", row, row.cause)
    elif request.auto_start:
        start(session, subject, row)
    return row


def start(session: Session, subject: Subject, row: RolloutRow) -> None:
    """Pre-flight, plan the stages, put an older rollout for the same devices aside, and expose the first stage."""
    following = after_event(row, Event.START)
    check_approved(row)
    _queue_for(session, row.selector_key)
    checks.check_room(session)
    bundle = bundles.find(session, row.digest)
    checks.check_releasable(session, bundle, subject)
    _supersede(session, subject, row)
    layers.take_slice(session, row)
    found = _eligible(session, row)
    checks.check_reach(audience_of(session, row), bundle, found)
    row.first_release = found.on_another == 0
    points = plan(row.requested, row.min_devices, found)
    for index, basis_points in enumerate(points):
        session.add(StageRow(rollout_id=row.id, index=index, basis_points=basis_points, targeted={}, fleet={}))
    row.state, row.cause = following, ""
    session.flush()
    _enter(session, row, 0, found)
    detail = {"eligible": found.sizes, "already": found.already, "stages": list(points)}
    record(session, subject, "rollout.started", _name(row), detail)
    if found.already == found.count:
        complete(session, row, "every matching device already runs this bundle", subject)
        return
    checks.check_document(state_document.publish(session), bundles.revoked_count(session))


def check_approved(row: RolloutRow) -> None:
    """Where two people decide, the second one has approved it; raises NotApproved."""
    if service.needs_second_person() and row.approved_by is None:
        raise NotApproved(f"rollout {row.id} waits for a second person: `edgeloop release approve {row.id}`")


def audience_of(session: Session, row: RolloutRow) -> Audience:
    """Whom the rollout is for."""
    return audience.audience_of(row, layers.find(session, row.layer))


def _eligible(session: Session, row: RolloutRow) -> fleet.Eligible:
    return fleet.eligible(session, audience_of(session, row), row.salt, row.digest)


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


def act(
    session: Session, subject: Subject, rollout_id: str, event: Event, reason: str, version: int | None
) -> RolloutRow:
    """An operator's (or a service's) start, pause, resume or roll back; `version` is what the caller has seen."""
    row = seen(session, rollout_id, version)
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
    row.state = after_event(row, Event.ADVANCE)
    _leave(session, row)
    _enter(session, row, row.stage + 1, _eligible(session, row))
    row.verdict = "promote"
    row.version += 1
    record(session, SYSTEM, "rollout.advanced", _name(row), {"stage": row.stage, "why": why})
    state_document.publish(session)


def complete(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM) -> None:
    """The bundle becomes what its devices run: the baseline, or a standing entry for a part of the fleet."""
    row.state = after_event(row, Event.COMPLETE)
    _leave(session, row)
    row.verdict, row.finished, row.cause = "promote", service.clock().now(), why
    row.version += 1
    control = state_document.lock_control(session)
    replaced = [RolloutRow.standing, RolloutRow.id != row.id]
    partial = audience.is_partial(row)
    if partial:
        row.standing = True
        replaced.append(RolloutRow.selector_key == row.selector_key)
    older = session.scalars(select(RolloutRow).where(*replaced)).all()
    row.previous_digest = older[0].digest if partial and older else control.baseline_digest
    for other in older:
        other.standing = False
    if not partial:
        control.baseline_digest = row.digest
        production.announce(session, row.digest, f"completed-{row.id}")
    record(session, actor, "rollout.completed", _name(row), {"why": why})
    state_document.publish(session)


def pause(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM) -> None:
    """Devices keep what they have; no more are exposed."""
    row.state = after_event(row, Event.PAUSE)
    row.cause = why
    record(session, actor, "rollout.paused", _name(row), {"why": why})
    if actor == SYSTEM:
        row.verdict = "inconclusive"
        row.version += 1
        alert(session, "rollout.paused", row, why)


def resume(session: Session, row: RolloutRow, why: str, actor: Actor) -> None:
    """The stage begins anew: soak and patience start over, evidence is kept."""
    row.state = after_event(row, Event.RESUME)
    row.cause = ""
    stage = stages(session, row.id)[row.stage]
    stage.entered, stage.entered_at = service.clock().now(), datetime.now(UTC)
    record(session, actor, "rollout.resumed", _name(row), {"why": why})


def roll_back(session: Session, row: RolloutRow, why: str, actor: Actor = SYSTEM, verdict: str = "withdrawn") -> None:
    """Take the bundle back: its entry leaves the state document, devices return to what they ran before."""
    was_completed = row.state == RolloutState.COMPLETED
    row.state = after_event(row, Event.ROLL_BACK)
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
    alert(session, "rollout.rolled-back", row, why)
    state_document.publish(session)


def kill(session: Session, row: RolloutRow, why: str, subject: Subject) -> None:
    """End a rollout in progress for good; the caller publishes the state document."""
    row.state = after_event(row, Event.KILL)
    _leave(session, row)
    row.cause, row.finished = why, service.clock().now()
    row.version += 1
    row.human_actions += subject.kind == "operator"
    record(session, subject, "rollout.killed", _name(row), {"why": why})


def seen(session: Session, rollout_id: str, version: int | None) -> RolloutRow:
    """The rollout, locked, as the caller has seen it. Raises UnknownRollout, VersionMismatch."""
    row = locked(session, rollout_id)
    if version is not None and version != row.version:
        raise VersionMismatch(f"rollout {row.id} is at version {row.version}, you have seen {version}; look again")
    return row


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


def _supersede(session: Session, subject: Subject, row: RolloutRow) -> None:
    condition = (RolloutRow.state.in_(ACTIVE), RolloutRow.selector_key == row.selector_key)
    older = session.scalars(select(RolloutRow).where(*condition).with_for_update(key_share=True)).all()
    for other in older:
        roll_back(session, other, f"superseded by {row.id}", subject, verdict="superseded")
        other.version += 1
    session.flush()


def after_event(row: RolloutRow, event: Event) -> RolloutState:
    """The state that follows; raises WrongState."""
    try:
        return after(RolloutState(row.state), event)
    except IllegalTransition as error:
        raise WrongState(str(error)) from error


def alert(session: Session, kind: str, row: RolloutRow, why: str) -> None:
    """Something about a rollout that a person should know."""
    session.add(Alert(kind=kind, subject=_name(row), detail=why[:2_000], created=service.clock().now()))


def _name(row: RolloutRow) -> str:
    return f"rollout:{row.id}"
