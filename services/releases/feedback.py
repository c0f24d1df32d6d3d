"""Takes in what devices tell about their bundles.

A batch is one transaction. Each report has a natural key, so a repetition changes nothing; sequence numbers put
late reports in their place: an old one never overwrites what is newer, and a failure is never forgotten.
Health counts for a rollout's canary when the device is exposed and runs the new bundle, for its control when the
device is not exposed and runs another bundle that is not itself being rolled out. An exposed device that still runs
another one waits: it is compared with nobody, but its crashes are known.
A device whose tags change may join a rollout or leave it. One that left is neither waited for nor called silent any
more; what it measured and how it failed while it was in stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.device import DeviceTags
from contracts.state import bucket
from contracts.targeting import Facts, facts_of
from contracts.wire.feedback import Cause, FeedbackBatch, HealthReport, InstallEvent, InstallStage
from services.kit.problems import NotFound
from services.releases.audience import audience_of
from services.releases.domain.machine import ACTIVE
from services.releases.models import TAKEN, Device, Exposure, FeedbackItem, HealthSum, LayerRow, RolloutRow, StageRow
from services.releases.verdict import Arm

FAILED = frozenset({InstallStage.ROLLED_BACK, InstallStage.REFUSED})
NOT_ITS_FAULT = frozenset({Cause.WITHDRAWN, Cause.REVOKED, Cause.NO_KEY, Cause.TEE_FAILED})
NORMAL = "normal"
FELL_BACK = "fell_back"


@dataclass(frozen=True)
class Placement:
    """A rollout in progress as it concerns one device."""

    rollout_id: str
    digest: str
    bucket: int
    exposed: bool


@dataclass(frozen=True)
class Taken:
    """How many reports of a batch were new."""

    fresh: int
    repeated: int


def receive(session: Session, device_id: str, batch: FeedbackBatch, now: float) -> Taken:
    """Take in one batch of one device."""
    device = session.get(Device, device_id, with_for_update={"key_share": True})
    if device is None:
        raise NotFound(f"no device has the identity {device_id}; enrol again")
    items = [*(event.event_id for event in batch.installs), *(report.report_id for report in batch.health)]
    fresh = _new_items(session, device_id, items)
    waiting = set(fresh)
    installs = [event for event in batch.installs if _take(waiting, event.event_id)]
    installs.sort(key=lambda event: event.sequence)
    health = [report for report in batch.health if _take(waiting, report.report_id)]
    before = _facts(device)
    newest = _describe(device, batch, installs, health, now)
    found = placements(session, device_id, _facts(device))
    if _facts(device) != before:
        _moved(session, device_id, found)
    stratum = batch.tags.device_class
    left = _left(session, device_id) if any(event.stage in FAILED for event in installs) else []
    for event in installs:
        for placement in [*found, *left] if event.stage in FAILED else found:
            if placement.exposed and placement.digest == event.digest:
                _expose(session, device_id, stratum, placement, event, now)
    offered = {placement.digest for placement in found}
    for report in health:
        for placement in found:
            _count_health(session, device_id, stratum, placement, report, offered, now)
    if newest and batch.running_digest not in offered:
        _fell_back(session, device_id, [placement.rollout_id for placement in found if placement.exposed])
    return Taken(len(fresh), len(items) - len(fresh))


def _new_items(session: Session, device_id: str, items: Sequence[str]) -> set[str]:
    if not items:
        return set()
    rows = [{"device_id": device_id, "item_id": item} for item in sorted(set(items))]
    statement = insert(FeedbackItem).values(rows).on_conflict_do_nothing().returning(FeedbackItem.item_id)
    return set(session.scalars(statement))


def _take(waiting: set[str], item: str) -> bool:
    """True once for each item, so that a batch that names one twice counts it once."""
    if item not in waiting:
        return False
    waiting.discard(item)
    return True


def _describe(
    device: Device,
    batch: FeedbackBatch,
    installs: Sequence[InstallEvent],
    health: Sequence[HealthReport],
    now: float,
) -> bool:
    """The device's own word on itself, unless something newer was heard already; True when it was the newest."""
    numbers = [*(event.sequence for event in installs), *(report.sequence for report in health)]
    newest = max(numbers, default=None)
    device.last_feedback = now
    if newest is not None and newest < device.sequence:
        return False
    device.sequence = device.sequence if newest is None else newest
    device.tags = batch.tags.model_dump()
    device.device_class = batch.tags.device_class
    device.running_digest = batch.running_digest
    device.slot_stage = batch.slot_stage.value
    device.state_epoch = batch.state_epoch
    device.agent_version = batch.agent_version or device.agent_version
    causes = [event.cause.value for event in installs if event.stage in FAILED]
    device.last_cause = causes[-1] if causes else device.last_cause
    return True


def _facts(device: Device) -> Facts:
    return facts_of(DeviceTags.model_validate(device.tags), device.agent_version)


def follow_tags(session: Session, device: Device) -> None:
    """The device got other tags: mark where they keep it and where not, in rollouts that are in progress."""
    _moved(session, device.id, placements(session, device.id, _facts(device)))


def _moved(session: Session, device_id: str, placements: Sequence[Placement]) -> None:
    included = [placement.rollout_id for placement in placements]
    active = select(RolloutRow.id).where(RolloutRow.state.in_(ACTIVE))
    condition = (Exposure.device_id == device_id, Exposure.rollout_id.in_(active))
    session.execute(update(Exposure).where(*condition).values(moved=Exposure.rollout_id.not_in(included)))


def _left(session: Session, device_id: str) -> list[Placement]:
    """Rollouts in progress that the device began and then left: how it failed there still counts, also told later."""
    query = (
        select(RolloutRow.id, RolloutRow.digest, Exposure.bucket)
        .join(Exposure, Exposure.rollout_id == RolloutRow.id)
        .where(Exposure.device_id == device_id, Exposure.moved, RolloutRow.state.in_(ACTIVE))
    )
    return [Placement(rollout, digest, place, True) for rollout, digest, place in session.execute(query)]


def placements(session: Session, device_id: str, facts: Facts) -> list[Placement]:
    """Rollouts in progress that are for this device, and where it falls in each."""
    query = (
        select(RolloutRow, StageRow.basis_points, LayerRow)
        .join(StageRow, (StageRow.rollout_id == RolloutRow.id) & (StageRow.index == RolloutRow.stage))
        .outerjoin(LayerRow, LayerRow.name == RolloutRow.layer)
        .where(RolloutRow.state.in_(ACTIVE))
    )
    found = []
    for row, points, layer in session.execute(query):
        if audience_of(row, layer).includes(device_id, facts):
            place = bucket(row.salt, device_id)
            found.append(Placement(row.id, row.digest, place, place < points))
    return found


def _expose(
    session: Session, device_id: str, stratum: str, placement: Placement, event: InstallEvent, now: float
) -> None:
    failed = event.stage in FAILED and event.cause not in NOT_ITS_FAULT
    statement = insert(Exposure).values(
        rollout_id=placement.rollout_id,
        device_id=device_id,
        stratum=stratum,
        bucket=placement.bucket,
        stage=event.stage.value,
        sequence=event.sequence,
        failed=failed,
        confirmed=event.stage is InstallStage.CONFIRMED,
        heard=False,
        cause=event.cause.value if event.stage in FAILED else "",
        started=now,
    )
    given = statement.excluded
    newer = given.sequence >= Exposure.sequence
    statement = statement.on_conflict_do_update(
        index_elements=[Exposure.rollout_id, Exposure.device_id],
        set_={
            "stage": case((newer, given.stage), else_=Exposure.stage),
            "confirmed": case((newer, given.confirmed), else_=Exposure.confirmed),
            "cause": case((given.cause != "", given.cause), else_=Exposure.cause),
            "sequence": case((newer, given.sequence), else_=Exposure.sequence),
            "failed": Exposure.failed | given.failed,
        },
    )
    session.execute(statement)


def _fell_back(session: Session, device_id: str, rollout_ids: Sequence[str]) -> None:
    """What a device runs wins over what it confirmed: one that confirmed a bundle and runs an older one has failed.

    A device whose bundle was withdrawn says so, and is no longer confirmed.
    """
    if not rollout_ids:
        return
    condition = (Exposure.device_id == device_id, Exposure.rollout_id.in_(rollout_ids), Exposure.confirmed)
    cause = case((Exposure.cause != "", Exposure.cause), else_=FELL_BACK)
    session.execute(update(Exposure).where(*condition).values(failed=True, confirmed=False, cause=cause))


def _count_health(
    session: Session,
    device_id: str,
    stratum: str,
    placement: Placement,
    report: HealthReport,
    offered: set[str],
    now: float,
) -> None:
    canary = placement.exposed and report.digest == placement.digest
    if not canary and report.digest in offered:
        return
    arm = Arm.CANARY if canary else (Arm.WAITING if placement.exposed else Arm.CONTROL)
    _add_health(session, device_id, stratum, placement, report, arm)
    if canary:
        _mark_heard(session, device_id, stratum, placement, now)


def _mark_heard(session: Session, device_id: str, stratum: str, placement: Placement, now: float) -> None:
    """Health of the new bundle proves that it was installed, also when the steps themselves come late."""
    statement = insert(Exposure).values(
        rollout_id=placement.rollout_id,
        device_id=device_id,
        stratum=stratum,
        bucket=placement.bucket,
        stage=InstallStage.INSTALLED.value,
        sequence=0,
        failed=False,
        confirmed=False,
        heard=True,
        cause="",
        started=now,
    )
    keys = [Exposure.rollout_id, Exposure.device_id]
    stage = case((Exposure.stage == TAKEN, statement.excluded.stage), else_=Exposure.stage)
    session.execute(statement.on_conflict_do_update(index_elements=keys, set_={"heard": True, "stage": stage}))


def _add_health(
    session: Session, device_id: str, stratum: str, placement: Placement, report: HealthReport, arm: Arm
) -> None:
    timed = report.latency_p99_ms > 0
    measured = report.fidelity_lsb > 0
    counts = {
        "frames": max(report.upscaled, report.driver_errors, report.cpu_frames) or report.frames,
        "driver_errors": report.driver_errors,
        "deadline_misses": report.deadline_misses,
        "cpu_frames": report.cpu_frames,
        "latency_reports": int(timed),
        "latency_log_sum": math.log(_comparable_latency(report)) if timed else 0.0,
        "fidelity_reports": int(measured),
        "fidelity_sum": report.fidelity_lsb if measured else 0.0,
        "score_reports": int(report.score_mean != 0.0),
        "score_sum": report.score_mean,
    }
    statement = insert(HealthSum).values(
        rollout_id=placement.rollout_id,
        device_id=device_id,
        arm=arm.value,
        stratum=stratum,
        bucket=placement.bucket,
        degraded=report.state != NORMAL,
        crashed=report.crashes > 0,
        **counts,
    )
    sums = {name: getattr(HealthSum, name) + statement.excluded[name] for name in counts}
    sums["degraded"] = HealthSum.degraded | statement.excluded.degraded
    sums["crashed"] = HealthSum.crashed | statement.excluded.crashed
    keys = [HealthSum.rollout_id, HealthSum.device_id, HealthSum.arm]
    session.execute(statement.on_conflict_do_update(index_elements=keys, set_=sums))


def _comparable_latency(report: HealthReport) -> float:
    """P99 latency against the device's own reference for the sizes it saw; against its budget where it tells none."""
    return report.latency_relative_p99 or report.latency_p99_ms / report.budget_ms
