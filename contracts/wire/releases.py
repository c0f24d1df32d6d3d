"""Releases: bundles, rollouts, devices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.targeting import LIMITS as TARGETING
from contracts.wire.base import Answer, Digest, Identifier, Message

NOTES_CHARS = 4_000
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")]
Words = Annotated[tuple[Annotated[str, StringConstraints(max_length=32)], ...], Field(max_length=TARGETING.words)]
Selector = Annotated[dict[str, Words], Field(max_length=16)]
Notes = Annotated[str, StringConstraints(max_length=NOTES_CHARS, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
"""Markdown, kept and shown as text; no control characters but tab and line feed."""
SourceHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,128}$")]


class RolloutState(StrEnum):
    """Life of a rollout."""

    DRAFT = "draft"
    APPROVED = "approved"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    KILLED = "killed"


class Provenance(Message):
    """Where a bundle comes from. `gate_report`: path of the evidence on the platform; `sources`: digests by name."""

    run: Identifier | None = None
    mlflow_run: Identifier | None = None
    gate_report: Annotated[str, StringConstraints(max_length=200, pattern=r"^(/[A-Za-z0-9._/-]*)?$")] = ""
    sources: Annotated[dict[Name, SourceHash], Field(max_length=32)] = Field(default_factory=dict)


class BundleRegistration(Message):
    """Register a gated build for release; the service fetches the bundle from the builds service."""

    build_id: Identifier
    notes: Notes = ""
    provenance: Provenance = Provenance()


class BundleRecord(Answer):
    """A bundle in the update repository."""

    digest: str
    release_version: str
    security_epoch: int
    length: int
    build_id: str
    target_path: str
    targets: tuple[str, ...] = ()
    notes: str = ""
    provenance: Provenance = Provenance()
    created_by: str = ""
    revoked: bool = False
    created: float


class RolloutRequest(Message):
    """A staged release. `selector` maps a tag to the values it may have; empty means every device.

    `rule` is a text of `contracts.targeting`, and must hold too. In a `layer`, the rollout gets `layer_share` basis
    points of it that no other rollout of the layer has.
    """

    digest: Digest
    selector: Selector = Field(default_factory=dict)
    rule: Annotated[str, StringConstraints(max_length=TARGETING.text_chars)] = ""
    layer: Annotated[str, StringConstraints(max_length=32)] = ""
    layer_share: Annotated[int, Field(ge=0, le=10_000)] = 0
    stages: Annotated[tuple[int, ...], Field(min_length=1, max_length=16)] = (500, 2_500, 10_000)
    soak_s: Annotated[float, Field(ge=0)] = 4 * 3_600.0
    min_devices: Annotated[int, Field(ge=1)] = 5
    silent_after_s: Annotated[float, Field(gt=0)] = 2 * 86_400.0
    auto_start: bool = False
    reason: Annotated[str, StringConstraints(max_length=400)] = ""


class StageProgress(Answer):
    """One stage: who was meant, who runs it, who confirmed, who failed, for whom it no longer is."""

    basis_points: int
    entered: float | None = None
    left: float | None = None
    targeted: int = 0
    installed: int = 0
    confirmed: int = 0
    failed: int = 0
    moved: int = 0


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
    """A rollout with its evidence. `version` is the ETag of edits.

    `layer_slice`: the buckets of its layer that it holds, once started. `device_classes`: those of the devices that it
    was for when its newest stage began.
    """

    id: str
    digest: str
    release_version: str
    state: RolloutState
    stage: int
    stages: tuple[StageProgress, ...]
    selector: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    rule: str = ""
    layer: str = ""
    layer_slice: tuple[int, int] | None = None
    device_classes: tuple[str, ...] = ()
    created_by: str = ""
    approved_by: str = ""
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


class LayerRequest(Message):
    """Make a layer: rollouts in it never share a device."""

    name: Name


class LayerClaim(Answer):
    """A part of a layer, from `low` up to `high`, and the rollout that holds it."""

    rollout: str
    low: int
    high: int


class Layer(Answer):
    """A layer, the parts that are held, and how many of its 10,000 buckets are free."""

    name: str
    claims: tuple[LayerClaim, ...]
    free: int
    created: float


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


class RunningCount(Answer):
    """So many devices of a class run a bundle. `version` is empty for a bundle that was not released here."""

    digest: str
    version: str = ""
    device_class: str
    devices: int


class AlertRecord(Answer):
    """Something that a person should know. `created` is clock time."""

    id: int
    kind: str
    subject: str
    detail: str
    created: float


class FleetStanding(Answer):
    """The fleet at a glance, largest counts first; `complete` is False where small ones are left out."""

    running: tuple[RunningCount, ...] = ()
    complete: bool = True
    killed: bool = False
    kill_reason: str = ""
    alerts: tuple[AlertRecord, ...] = ()
