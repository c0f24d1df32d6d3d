"""One tick of one rollout: look, judge, step. Idempotent, and safe when several workers tick at once.

The row lock lets one worker in and sends the others away; what a tick decides depends only on committed rows and
the clock, so a repeated tick decides the same and a step that was taken is not taken again.
"""

from __future__ import annotations

from datetime import UTC, datetime

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.state import BUCKETS
from contracts.wire.releases import RolloutState
from services.kit.database import transaction
from services.releases import decisions, observed, rollouts, service
from services.releases.domain.machine import ACTIVE, Event, Look, Step, next_step
from services.releases.limits import ROLLOUT
from services.releases.models import RolloutRow, StageRow
from services.releases.verdict import Judgement, judge

log = structlog.get_logger(__name__)


def tick_all() -> int:
    """Tick every rollout in progress, each in its own transaction; returns how many took a step.

    A rollout whose tick fails is logged and does not hold up the others.
    """
    with transaction() as session:
        query = select(RolloutRow.id).where(RolloutRow.state.in_(ACTIVE)).order_by(RolloutRow.created)
        ids = session.scalars(query.limit(ROLLOUT.tick_rows)).all()
    return sum(_tick_safely(rollout_id) for rollout_id in ids)


def _tick_safely(rollout_id: str) -> bool:
    try:
        return tick(rollout_id)
    except Exception as error:  # whatever went wrong with one rollout, the next one's safety is still asked
        log.error("rollout_tick_failed", rollout=rollout_id, exc_info=error)
        return False


def tick(rollout_id: str) -> bool:
    """Tick one rollout; False when nothing moved or another worker holds it."""
    with transaction() as session:
        row = session.get(RolloutRow, rollout_id, with_for_update={"key_share": True, "skip_locked": True})
        if row is None or row.state not in ACTIVE:
            return False
        return _tick(session, row, service.clock().now())


def _tick(session: Session, row: RolloutRow, now: float) -> bool:
    stages = rollouts.stages(session, row.id)
    evidence = observed.evidence(session, row, stages, now)
    memory = decisions.remember(row, evidence)
    following = stages[row.stage + 1].basis_points if row.stage + 1 < len(stages) else BUCKETS
    judgement = judge(evidence, decisions.POLICY, following / BUCKETS, row.min_devices, memory)
    step = next_step(_look(row, stages, judgement, now))
    decisions.store(session, row, evidence, judgement, step, now)
    _apply(session, row, step)
    return step.event is not None


def _look(row: RolloutRow, stages: list[StageRow], judgement: Judgement, now: float) -> Look:
    stage = stages[row.stage]
    entered_at = stage.entered_at or datetime.now(UTC)
    return Look(
        state=RolloutState(row.state),
        last_stage=row.stage == len(stages) - 1,
        waited_s=now - (stage.entered if stage.entered is not None else now),
        waited_real_s=(datetime.now(UTC) - entered_at).total_seconds(),
        soak_s=row.soak_s,
        patience_s=ROLLOUT.patience * row.silent_after_s,
        patience_floor_s=ROLLOUT.patience_floor_s,
        judgement=judgement,
    )


def _apply(session: Session, row: RolloutRow, step: Step) -> None:
    match step.event:
        case Event.ADVANCE:
            rollouts.advance(session, row, step.why)
        case Event.COMPLETE:
            rollouts.complete(session, row, step.why)
        case Event.PAUSE:
            rollouts.pause(session, row, step.why)
        case Event.ROLL_BACK:
            rollouts.roll_back(session, row, step.why, verdict="rollback")
        case _:
            return
