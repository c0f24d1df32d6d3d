"""From the tables to evidence: what one rollout's devices have shown so far.

A crash is counted once: the look that bets on it marks its row in its own transaction, so a tick that fails counts it
again and one that commits never does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from contracts.state import BUCKETS
from services.releases.limits import ROLLOUT
from services.releases.models import TAKEN, Exposure, HealthSum, RolloutRow, StageRow
from services.releases.verdict import Arm, DeviceHealth, DeviceInstall, Evidence, Tail, gather
from services.releases.verdict.crashes import MOST_EVENTS, CrashTable
from services.releases.verdict.guardrails import (
    CPU_FRAME_SHARE,
    DEADLINE_MISS_SHARE,
    DRIVER_ERROR_SHARE,
    FIDELITY_LSB,
    LATENCY_LOG_RATIO,
    QUALITY_LOSS_DB,
)
from services.releases.verdict.past import CrashPast, Observed
from services.releases.verdict.resampling import device_keys

STAYS = Exposure.failed | ~Exposure.moved
"""A device that moved out of the rollout is no longer waited for; a failure is never forgotten."""
_QUIETLY = {"synchronize_session": False}  # the rows in hand keep what they said at this look


def evidence(session: Session, row: RolloutRow, stages: list[StageRow], now: float) -> Evidence:
    """Everything known about a rollout at clock time `now`. Marks new crashes as counted: store what comes of it."""
    stage = stages[row.stage]
    floor = _control_floor(stages, row.stage)
    rows = _rows(session, row)
    compared = _compared(rows, floor)
    found = gather(
        [_device(one) for one in compared],
        _installs(session, row, now),
        stage.fleet,
        row.first_release,
        stage.targeted,
        stage.basis_points / BUCKETS,
    )
    crashes = _new_crashes(session, rows, compared, concurrent=floor == stage.basis_points < BUCKETS)
    past = _past(rows, floor) if stage.basis_points == BUCKETS and not row.first_release else {}
    stages_in_all = max(len(stages), 1)
    return replace(found, crashes=crashes, past=past, tail=_tail(compared), stage=row.stage, stages=stages_in_all)


def _device(sums: HealthSum) -> DeviceHealth:
    return DeviceHealth(sums.device_id, sums.stratum, Arm(sums.arm), _means(sums), sums.degraded, sums.crashed)


def _control_floor(stages: list[StageRow], index: int) -> int:
    """Buckets from here on are control. At full exposure no concurrent control exists: the last sample stays."""
    narrower = [stage.basis_points for stage in stages[: index + 1] if stage.basis_points < BUCKETS]
    return narrower[-1] if narrower else BUCKETS


def _rows(session: Session, row: RolloutRow) -> list[HealthSum]:
    return list(session.scalars(select(HealthSum).where(HealthSum.rollout_id == row.id)))


def _compared(rows: list[HealthSum], control_floor: int) -> list[HealthSum]:
    """Canary and control; a control device that is exposed by now is neither, nor is one that still waits."""
    return [
        sums for sums in rows if sums.arm == Arm.CANARY or (sums.arm == Arm.CONTROL and sums.bucket >= control_floor)
    ]


def _new_crashes(
    session: Session, rows: list[HealthSum], compared: list[HealthSum], concurrent: bool
) -> dict[str, CrashTable]:
    """By stratum: devices that crashed for the first time in this rollout, and those that could have.

    A device that crashed on either bundle is out for good: devices that tend to crash do so early, and a control that
    has lost them would make every newly exposed device look worse. Without a concurrent control nothing is compared.
    """
    fresh = [one for one in rows if one.crashed and not one.crash_counted]
    if not fresh:
        return {}
    out = {one.device_id for one in rows if one.crash_counted}
    free = [one for one in compared if one.device_id not in out]
    tables = {}
    for stratum in sorted({one.stratum for one in fresh}) if concurrent else ():
        counts = [_at_risk(free, stratum, arm) for arm in (Arm.CANARY, Arm.CONTROL)]
        if 0 < sum(crashes for crashes, _ in counts) <= MOST_EVENTS:
            tables[stratum] = CrashTable(*counts[0], *counts[1])
    for one in fresh:
        key = (HealthSum.rollout_id == one.rollout_id, HealthSum.device_id == one.device_id, HealthSum.arm == one.arm)
        session.execute(update(HealthSum).where(*key).values(crash_counted=True), execution_options=_QUIETLY)
    return tables


def _past(rows: list[HealthSum], floor: int) -> dict[str, CrashPast]:
    """By stratum: the devices that full exposure added (buckets from `floor` on), as control and on the new bundle.

    A device that crashed on the old bundle, as control or while it waited, has had its first crash.
    """
    added = [one for one in rows if one.bucket >= floor]
    had = {one.device_id for one in added if one.crashed and one.arm != Arm.CANARY}
    before, after = ([one for one in added if one.arm == arm] for arm in (Arm.CONTROL, Arm.CANARY))
    after = [one for one in after if one.device_id not in had]
    return {
        stratum: CrashPast(_seen(before, stratum), _seen(after, stratum))
        for stratum in sorted({one.stratum for one in after})
    }


def _seen(rows: list[HealthSum], stratum: str) -> Observed:
    members = [one for one in rows if one.stratum == stratum]
    return Observed(sum(one.crashed for one in members), len(members), float(sum(one.frames for one in members)))


def _at_risk(free: list[HealthSum], stratum: str, arm: Arm) -> tuple[int, int]:
    members = [one for one in free if one.stratum == stratum and one.arm == arm]
    return sum(one.crashed and not one.crash_counted for one in members), len(members)


def _tail(rows: list[HealthSum]) -> Tail:
    return Tail(
        keys=device_keys([one.device_id for one in rows]),
        canary=np.array([one.arm == Arm.CANARY for one in rows], dtype=bool),
        latency=np.array([_mean_latency(one) for one in rows], dtype=np.float64),
        errors=np.array([min(one.driver_errors, one.frames) for one in rows], dtype=np.float64),
        frames=np.array([one.frames for one in rows], dtype=np.float64),
    )


def _mean_latency(sums: HealthSum) -> float:
    return sums.latency_log_sum / sums.latency_reports if sums.latency_reports else math.nan


def _means(sums: HealthSum) -> dict[str, float]:
    """Device means; what was never measured is absent."""
    values = {
        DRIVER_ERROR_SHARE: min(1.0, sums.driver_errors / sums.frames),
        DEADLINE_MISS_SHARE: min(1.0, sums.deadline_misses / sums.frames),
        CPU_FRAME_SHARE: min(1.0, sums.cpu_frames / sums.frames),
    }
    if sums.latency_reports:
        values[LATENCY_LOG_RATIO] = _mean_latency(sums)
    if sums.fidelity_reports:
        values[FIDELITY_LSB] = sums.fidelity_sum / sums.fidelity_reports
    if sums.score_reports:
        values[QUALITY_LOSS_DB] = sums.score_sum / sums.score_reports
    return values


def _installs(session: Session, row: RolloutRow, now: float) -> list[DeviceInstall]:
    rows = session.scalars(select(Exposure).where(Exposure.rollout_id == row.id, STAYS))
    real = datetime.now(UTC) - timedelta(seconds=ROLLOUT.silent_floor_s)
    found = [(exposure, _silent(exposure, row, now, real)) for exposure in rows]
    return [
        DeviceInstall(exposure.device_id, exposure.stratum, exposure.failed, silent)
        for exposure, silent in found
        if silent or exposure.stage != TAKEN
    ]


def _silent(exposure: Exposure, row: RolloutRow, now: float, real: datetime) -> bool:
    """Began (by its own word, or by taking the bundle), said nothing of its health, and had its time by both clocks."""
    quiet = not exposure.heard and not exposure.failed
    return quiet and now - exposure.started > row.silent_after_s and exposure.started_at < real
