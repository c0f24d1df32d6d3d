"""What a device tells about its bundles: steps of an installation and health while running.

The sender is known by its access token. Reports carry natural keys, so a repeated report changes nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.device import DeviceTags
from contracts.wire.base import Digest, Identifier, Message
from contracts.wire.limits import LIMITS

MOST_SEQUENCE = 2**53 - 1
"""The largest whole number that JSON readers agree on; databases hold it too."""


class InstallStage(StrEnum):
    """Where a bundle stands on a device. Installed is not confirmed."""

    DOWNLOADED = "downloaded"
    INSTALLED = "installed"
    TRIAL = "trial"
    CONFIRMED = "confirmed"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"


class Cause(StrEnum):
    """Why a bundle was refused or rolled back."""

    NONE = "none"
    DAMAGED = "damaged"
    UNTRUSTED = "untrusted"
    WRONG_TARGET = "wrong_target"
    OLD_EPOCH = "old_epoch"
    DRIVER_ERRORS = "driver_errors"
    DEADLINE = "deadline"
    FIDELITY = "fidelity"
    CRASH = "crash"
    NO_SPACE = "no_space"
    REVOKED = "revoked"
    WITHDRAWN = "withdrawn"
    TIMEOUT = "timeout"
    NO_KEY = "no_key"
    """No content key, or not the one for this bundle and device."""
    TEE_FAILED = "tee_failed"
    """The device's trusted environment does not answer; the same offer is tried again."""


class InstallEvent(Message):
    """One step of one bundle on this device."""

    event_id: Identifier
    digest: Digest
    stage: InstallStage
    cause: Cause = Cause.NONE
    detail: Annotated[str, StringConstraints(max_length=200)] = ""
    sequence: Annotated[int, Field(ge=0, le=MOST_SEQUENCE)] = 0


class HealthReport(Message):
    """How one bundle ran over a window of frames. Latencies are emulated milliseconds, fidelity is in LSB."""

    report_id: Identifier
    digest: Digest
    sequence: Annotated[int, Field(ge=0, le=MOST_SEQUENCE)]
    frames: Annotated[int, Field(ge=1, le=10_000_000)]
    upscaled: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    deadline_misses: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    driver_errors: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    cpu_frames: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    lite_frames: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Frames that a smaller engine of the bundle made, because the device was hot, empty or weakly connected."""
    crashes: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Times that the process went down without an orderly end while this bundle ran. The agent sends a report of one
    frame for each, the frame that never came out."""
    latency_p50_ms: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    latency_p99_ms: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    latency_relative_p99: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """P99 of each frame's latency divided by the built-in bundle's estimate for that frame size; 0 = not known."""
    budget_ms: Annotated[float, Field(gt=0)] = 33.3
    fidelity_lsb: Annotated[float, Field(ge=0, le=255)] = 0.0
    score_mean: Annotated[float, Field(ge=-100, le=100)] = 0.0
    state: Annotated[str, StringConstraints(pattern=r"^(normal|degraded|disabled)$")] = "normal"


class FeedbackBatch(Message):
    """What a device has to say since it was last heard. Running digest and slot stage are its own word."""

    tags: DeviceTags
    running_digest: Annotated[str, StringConstraints(max_length=96)]
    slot_stage: InstallStage = InstallStage.CONFIRMED
    state_epoch: Annotated[int, Field(ge=0, le=MOST_SEQUENCE)] = 0
    agent_version: Annotated[str, StringConstraints(max_length=32)] = ""
    """Version of the device's own software; empty leaves what was known."""
    installs: Annotated[tuple[InstallEvent, ...], Field(max_length=LIMITS.feedback_items)] = ()
    health: Annotated[tuple[HealthReport, ...], Field(max_length=LIMITS.feedback_items)] = ()
