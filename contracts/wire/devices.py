"""One device as an operator looks at it: what it runs, what it tried, what it said lately."""

from __future__ import annotations

from datetime import datetime

from contracts.wire.base import Answer
from contracts.wire.releases import DeviceRecord


class DeviceTrial(Answer):
    """The device's part in one rollout. `failed` and `confirmed` are both false while it is under way."""

    rollout_id: str
    release_version: str
    digest: str
    slot_stage: str
    confirmed: bool
    failed: bool
    cause: str = ""
    started: float


class DeviceReport(Answer):
    """A report of the device that was taken in: its natural key and when it came."""

    item_id: str
    received: datetime


class DeviceDetail(DeviceRecord):
    """A device with its newest trials and reports, newest first."""

    agent_version: str = ""
    state_epoch: int = 0
    enrolled: float
    running_version: str = ""
    trials: tuple[DeviceTrial, ...] = ()
    reports: tuple[DeviceReport, ...] = ()
