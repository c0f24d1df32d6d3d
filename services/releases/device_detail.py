"""One device with its history: the rollouts it took part in and its newest reports."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.devices import DeviceDetail, DeviceReport, DeviceTrial
from services.releases import fleet
from services.releases.errors import UnknownDevice
from services.releases.models import BundleRow, Device, Exposure, FeedbackItem, RolloutRow
from services.releases.routes.device import SEEN

SHOWN = 20


def find(session: Session, device_id: str) -> Device:
    """The device. Raises UnknownDevice."""
    device = session.get(Device, device_id[:200])
    if device is None:
        raise UnknownDevice(
            f"no device {device_id[:64]!r} has joined; `edgeloop release devices list` lists those that did"
        )
    return device


def view(session: Session, device: Device) -> DeviceDetail:
    """The device with at most `SHOWN` trials and reports."""
    record = fleet.view(device, SEEN.of([device.id]).get(device.id))
    version = session.scalar(select(BundleRow.release_version).where(BundleRow.digest == device.running_digest))
    return DeviceDetail(
        **record.model_dump(),
        agent_version=device.agent_version,
        state_epoch=device.state_epoch,
        enrolled=device.enrolled,
        running_version=version or "",
        trials=_trials(session, device.id),
        reports=_reports(session, device.id),
    )


def _trials(session: Session, device_id: str) -> tuple[DeviceTrial, ...]:
    query = (
        select(Exposure, RolloutRow.digest, BundleRow.release_version)
        .join(RolloutRow, RolloutRow.id == Exposure.rollout_id)
        .join(BundleRow, BundleRow.digest == RolloutRow.digest)
        .where(Exposure.device_id == device_id)
        .order_by(Exposure.started.desc(), Exposure.rollout_id)
        .limit(SHOWN)
    )
    return tuple(
        DeviceTrial(
            rollout_id=exposure.rollout_id,
            release_version=version,
            digest=digest,
            slot_stage=exposure.stage,
            confirmed=exposure.confirmed,
            failed=exposure.failed,
            cause=exposure.cause,
            started=exposure.started,
        )
        for exposure, digest, version in session.execute(query)
    )


def _reports(session: Session, device_id: str) -> tuple[DeviceReport, ...]:
    query = select(FeedbackItem).where(FeedbackItem.device_id == device_id)
    newest = session.scalars(query.order_by(FeedbackItem.received_at.desc()).limit(SHOWN))
    return tuple(DeviceReport(item_id=row.item_id, received=row.received_at) for row in newest)
