"""From the tables to evidence: what one rollout's devices have shown so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.state import BUCKETS
from services.releases.limits import ROLLOUT
from services.releases.models import Exposure, HealthSum, RolloutRow, StageRow
from services.releases.verdict import Arm, DeviceHealth, DeviceInstall, Evidence, gather
from services.releases.verdict.guardrails import (
    CPU_FRAME_SHARE,
    DEADLINE_MISS_SHARE,
    DRIVER_ERROR_SHARE,
    FIDELITY_LSB,
    LATENCY_LOG_RATIO,
)


@dataclass(frozen=True)
class StageCounts:
    """Devices of a stage: who began, who confirmed, who failed."""

    installed: int
    confirmed: int
    failed: int


def evidence(session: Session, row: RolloutRow, stages: list[StageRow], now: float) -> Evidence:
    """Everything known about a rollout at clock time `now`."""
    stage = stages[row.stage]
    return gather(
        _health(session, row, _control_floor(stages, row.stage)),
        _installs(session, row, now),
        stage.fleet,
        row.first_release,
        stage.targeted,
    )


def counts(session: Session, rollout_id: str, basis_points: int) -> StageCounts:
    """How the devices of a stage (buckets below `basis_points`) came along."""
    query = select(
        func.count(),
        func.count().filter(Exposure.confirmed),
        func.count().filter(Exposure.failed),
    ).where(Exposure.rollout_id == rollout_id, Exposure.bucket < basis_points)
    installed, confirmed, failed = session.execute(query).one()
    return StageCounts(installed, confirmed, failed)


def _control_floor(stages: list[StageRow], index: int) -> int:
    """Buckets from here on are control. At full exposure no concurrent control exists: the last sample stays."""
    narrower = [stage.basis_points for stage in stages[: index + 1] if stage.basis_points < BUCKETS]
    return narrower[-1] if narrower else BUCKETS


def _health(session: Session, row: RolloutRow, control_floor: int) -> list[DeviceHealth]:
    rows = session.scalars(select(HealthSum).where(HealthSum.rollout_id == row.id))
    return [
        DeviceHealth(sums.device_id, sums.stratum, Arm(sums.arm), _means(sums), sums.degraded)
        for sums in rows
        if sums.arm == Arm.CANARY or sums.bucket >= control_floor
    ]


def _means(sums: HealthSum) -> dict[str, float]:
    """Device means; what was never measured is absent."""
    values = {
        DRIVER_ERROR_SHARE: min(1.0, sums.driver_errors / sums.frames),
        DEADLINE_MISS_SHARE: min(1.0, sums.deadline_misses / sums.frames),
        CPU_FRAME_SHARE: min(1.0, sums.cpu_frames / sums.frames),
    }
    if sums.latency_reports:
        values[LATENCY_LOG_RATIO] = sums.latency_log_sum / sums.latency_reports
    if sums.fidelity_reports:
        values[FIDELITY_LSB] = sums.fidelity_sum / sums.fidelity_reports
    return values


def _installs(session: Session, row: RolloutRow, now: float) -> list[DeviceInstall]:
    rows = session.scalars(select(Exposure).where(Exposure.rollout_id == row.id))
    real = datetime.now(UTC) - timedelta(seconds=ROLLOUT.silent_floor_s)
    return [
        DeviceInstall(exposure.device_id, exposure.stratum, exposure.failed, _silent(exposure, row, now, real))
        for exposure in rows
    ]


def _silent(exposure: Exposure, row: RolloutRow, now: float, real: datetime) -> bool:
    """Began, said nothing of its health, and had its time by both clocks."""
    quiet = not exposure.heard and not exposure.failed
    return quiet and now - exposure.started > row.silent_after_s and exposure.started_at < real
