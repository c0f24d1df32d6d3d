"""Settings of one agent: file, then environment, then flags; each checked once, none read later.

A file is JSON in the form of `AgentConfig`. The environment overrides top-level fields
(EDGELOOP_AGENT_SOURCE, EDGELOOP_AGENT_PLATFORM_URL, ...), flags override both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from contracts.device import DeviceTags
from edge_agent.errors import ConfigError

PREFIX = "EDGELOOP_AGENT_"
M = TypeVar("M", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HardConfig(_Section):
    """Mining of hard segments; see observers/hard.py."""

    in_a_row: Annotated[int, Field(ge=1, le=100)] = 3
    segment_frames: Annotated[int, Field(ge=1, le=8)] = 4
    hysteresis: Annotated[float, Field(ge=0, le=20)] = 0.1
    rearm_s: Annotated[float, Field(ge=0)] = 6 * 3_600.0
    per_day: Annotated[float, Field(gt=0, le=10_000)] = 6.0
    burst: Annotated[float, Field(ge=1, le=1_000)] = 3.0
    duplicate_distance: Annotated[float, Field(ge=0)] = 0.02


class DriftConfig(_Section):
    """Daily statistics: what a day needs before it is reported, and over how many hours after midnight the reports of
    a fleet spread. The platform judges a day EDGELOOP_DRIFT_GRACE_HOURS after its end: keep the spread below that.
    """

    minimum_frames: Annotated[int, Field(ge=1)] = 300
    minimum_sessions: Annotated[int, Field(ge=1, le=100)] = 2
    session_pause_s: Annotated[float, Field(gt=0, le=86_400)] = 900.0
    spread_hours: Annotated[float, Field(ge=0, le=24)] = 5.0


class HealthConfig(_Section):
    """A health report goes out after `frames` frames or `seconds` simulated seconds, whichever comes
    first.
    """

    frames: Annotated[int, Field(ge=1)] = 600
    seconds: Annotated[float, Field(gt=0)] = 1_800.0
    budget_ms: Annotated[float, Field(gt=0)] = 33.3


class ClimateConfig(_Section):
    """Heat and battery of the emulated device; a hot or nearly empty one runs the bundle's little kernels."""

    ambient_c: Annotated[float, Field(ge=-60, le=150)] = 25.0
    battery_wh: Annotated[float, Field(ge=0, le=100_000)] = 15.0
    charge: Annotated[float, Field(ge=0, le=1)] = 1.0
    other_w: Annotated[float, Field(ge=0, le=10_000)] = 0.0


class NetworkConfig(_Section):
    """When the network counts as weak, so that the bundle's smaller engine plays: round trips to the platform of over
    `weak_ms` in the median of the last `trips`, or `failures` of them without an answer; until they were under
    `good_ms` for `hold_s` real seconds.
    """

    weak_ms: Annotated[float, Field(gt=0, le=60_000)] = 800.0
    good_ms: Annotated[float, Field(gt=0, le=60_000)] = 300.0
    trips: Annotated[int, Field(ge=1, le=100)] = 5
    failures: Annotated[int, Field(ge=1, le=100)] = 3
    hold_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.good_ms >= self.weak_ms:
            raise ValueError("good_ms must be below weak_ms, or the choice would flap")
        if self.failures > self.trips:
            raise ValueError("failures must not be more than trips")
        return self


class TrialConfig(_Section):
    """When a bundle on trial is confirmed or rolled back; times are simulated seconds."""

    frames: Annotated[int, Field(ge=1)] = 60
    driver_errors: Annotated[int, Field(ge=1)] = 3
    miss_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    misses: Annotated[int, Field(ge=1)] = 3
    fidelity_lsb: Annotated[float, Field(gt=0, le=255)] = 16.0
    fidelity_frames: Annotated[int, Field(ge=1)] = 3
    timeout_s: Annotated[float, Field(gt=0)] = 2 * 86_400.0


class WatermarkConfig(_Section):
    """The device's batch, and a file with the maker's key in hexadecimal (mode 0600)."""

    batch: Annotated[int, Field(ge=0, lt=2**32)]
    key_file: Path


class AgentConfig(_Section):
    """Everything an agent needs to know at its start."""

    state_dir: Path
    factory_bundle: Path
    source: str
    loop: bool = False
    tags: DeviceTags
    platform_url: str = ""
    enrolment_token: str = Field(default="", repr=False)
    output: Path | None = None
    output_piece_frames: Annotated[int, Field(ge=0)] = 0
    output_keep: Annotated[int, Field(ge=1, le=1_000)] = 2
    backend: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,40}$")] = "npu"
    fps: Annotated[float, Field(ge=0, le=240)] = 25.0
    """Frames a real second; 0 plays as fast as the device can."""
    max_frames: Annotated[int, Field(ge=0)] = 0
    """Stop after so many frames; 0 goes on to the end of the source."""
    pipelined: bool = True
    """Prepare, engine, finish and compose frames on four threads; without it one after another."""
    deadline_ms: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    """A frame that is not composed this long after it was read is enlarged plainly; 0 waits."""
    hang_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """A stage that has one frame for so long hangs: frames pass it by, enlarged plainly."""
    upscale_every: Annotated[int, Field(ge=1, le=1_000)] = 1
    observe_every: Annotated[int, Field(ge=1, le=1_000)] = 1
    sync_s: Annotated[float, Field(gt=0)] = 10.0
    download_kilobytes_s: Annotated[float, Field(ge=0)] = 0.0
    """Bandwidth cap of downloads; 0 is none."""
    sealed_only: bool = False
    """Refuse bundles that are not sealed."""
    seed: int = 0
    faults: dict[str, Any] = {}  # Any: JSON, checked by edge_agent.runtime.npu.faults
    climate: ClimateConfig | None = None
    """Without it the emulated device is never hot and never empty."""
    durable: bool = True
    hard: HardConfig = HardConfig()
    drift: DriftConfig = DriftConfig()
    health: HealthConfig = HealthConfig()
    trial: TrialConfig = TrialConfig()
    network: NetworkConfig = NetworkConfig()
    watermark: WatermarkConfig | None = None


def load_config(path: Path | None, environment: Mapping[str, str] = os.environ, **flags: object) -> AgentConfig:
    """Merge file, environment and flags (None flags are absent). Raises ConfigError naming field and
    remedy.
    """
    merged: dict[str, Any] = _read(path) if path else {}
    for name in AgentConfig.model_fields:
        value = environment.get(PREFIX + name.upper())
        if value is not None:
            merged[name] = _decoded(value)
    for name, flag in flags.items():
        if flag is not None:
            merged[name] = {**merged.get(name, {}), **flag} if isinstance(flag, dict) else flag
    return parse(AgentConfig, merged, str(path) if path else "flags and environment")


def parse(model: type[M], raw: object, where: str) -> M:
    """Check decoded JSON against a model. Raises ConfigError."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ConfigError(f"setting {field} in {where}: {first['msg']}; see docs/how-to/device-teams.md") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"configuration {path} cannot be read ({error}); give a JSON object") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"configuration {path} must be a JSON object")
    return raw


def _decoded(value: str) -> object:
    if value[:1] in "{[" or value in ("true", "false"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
