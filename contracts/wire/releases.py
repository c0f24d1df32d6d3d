"""Releases: bundles, rollouts, devices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Digest, Message


class RolloutState(StrEnum):
    """Life of a rollout."""

    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    KILLED = "killed"


class BundleRegistration(Message):
    """Register a gated build for release; the service fetches the bundle from the builds service."""

    build_id: Annotated[str, StringConstraints(max_length=64)]
    notes: Annotated[str, StringConstraints(max_length=4_000)] = ""


class BundleRecord(Answer):
    """A bundle in the update repository."""

    digest: str
    release_version: str
    security_epoch: int
    length: int
    build_id: str
    target_path: str
    targets: tuple[str, ...] = ()
    created: float


class RolloutRequest(Message):
    """A staged release. `selector` maps a tag to the values it may have; empty means every device."""

    digest: Digest
    selector: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    stages: Annotated[tuple[int, ...], Field(min_length=1, max_length=16)] = (500, 2_500, 10_000)
    soak_s: Annotated[float, Field(ge=0)] = 4 * 3_600.0
    min_devices: Annotated[int, Field(ge=1)] = 5
    silent_after_s: Annotated[float, Field(gt=0)] = 2 * 86_400.0
    auto_start: bool = False
    reason: Annotated[str, StringConstraints(max_length=400)] = ""


class StageProgress(Answer):
    """One stage: who was meant, who runs it, who confirmed, who failed."""

    basis_points: int
    entered: float | None = None
    left: float | None = None
    targeted: int = 0
    installed: int = 0
    confirmed: int = 0
    failed: int = 0


class MetricInterval(Answer):
    """Canary minus control of one metric in one stratum at one look, with its anytime-valid bounds."""

    metric: str
    stratum: str
    canary_devices: int
    control_devices: int
    estimate: float
    low: float
    high: float
    margin: float
    verdict: str
    at: float


class Rollout(Answer):
    """A rollout with its evidence. `version` is the ETag of edits."""

    id: str
    digest: str
    release_version: str
    state: RolloutState
    stage: int
    stages: tuple[StageProgress, ...]
    selector: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    verdict: str = ""
    cause: str = ""
    version: int
    human_actions: int = 0
    metrics: tuple[MetricInterval, ...] = ()
    created: float
    finished: float | None = None


class RolloutList(Answer):
    """A page of rollouts, newest first."""

    items: tuple[Rollout, ...]
    next_cursor: str | None = None


class OperatorAction(Message):
    """Pause, resume, roll back: with a reason for the audit log."""

    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]


class KillSwitch(Message):
    """Stop every NPU program of ours on every device, or allow them again."""

    killed: bool
    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]


class DeviceRecord(Answer):
    """A device as last heard."""

    id: str
    device_class: str
    tags: dict[str, str] = Field(default_factory=dict)
    running_digest: str = ""
    slot_stage: str = ""
    last_seen: float | None = None
    last_cause: str = ""


class DeviceList(Answer):
    """A page of devices."""

    items: tuple[DeviceRecord, ...]
    next_cursor: str | None = None
