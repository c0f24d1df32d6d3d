"""Settings of a fleet process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from contracts.device import DeviceTags
from edge_agent.config import DriftConfig, HardConfig, HealthConfig, TrialConfig, parse
from edge_agent.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupConfig(_Section):
    """Devices that are alike. `schedule` is a file name or the schedule itself (see sources.py)."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    count: Annotated[int, Field(ge=1, le=5_000)]
    tags: DeviceTags
    schedule: str | dict[str, Any]  # Any: JSON, checked when it is loaded
    faults: dict[str, Any] = {}  # Any: JSON, checked by edge_agent.runtime.npu.faults
    faulty: Annotated[int, Field(ge=0)] | None = None
    """How many devices of the group have the faults; None means all."""
    backend: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,40}$")] = "npu"


class FleetConfig(_Section):
    """A fleet. `frames_per_day` is sampled frames per device and simulated day."""

    state_dir: Path
    factory_bundle: Path
    platform_url: str = ""
    enrolment_token: str = Field(default="", repr=False)
    status_file: Path | None = None
    groups: Annotated[tuple[GroupConfig, ...], Field(min_length=1, max_length=64)]
    seed: int = 0
    frames_per_day: Annotated[float, Field(gt=0, le=100_000)] = 24.0
    upscale_every: Annotated[int, Field(ge=1, le=1_000)] = 4
    sync_s: Annotated[float, Field(gt=0)] = 4.0
    """Real seconds between two talks of a device with the platform."""
    sync_threads: Annotated[int, Field(ge=1, le=32)] = 3
    state_ttl_s: Annotated[float, Field(ge=0)] = 2.0
    """Real seconds for which the devices share one fetched state document."""
    pool_megabytes: Annotated[int, Field(ge=1, le=65_536)] = 192
    memo_megabytes: Annotated[int, Field(ge=0, le=65_536)] = 64
    frames_per_clip: Annotated[int, Field(ge=2, le=10_000)] = 48
    stride: Annotated[int, Field(ge=1, le=1_000)] = 5
    """Every n-th frame of a clip is sampled."""
    stay_frames: Annotated[int, Field(ge=1)] = 12
    """Frames that a device watches before it moves to another place or clip."""
    outbox_entries: Annotated[int, Field(ge=1)] = 64
    durable: bool = False
    hard: HardConfig = HardConfig()
    drift: DriftConfig = DriftConfig()
    health: HealthConfig = HealthConfig()
    trial: TrialConfig = TrialConfig()

    @property
    def devices(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def status_path(self) -> Path:
        return self.status_file or self.state_dir / "fleet.json"


def load_fleet(path: Path) -> FleetConfig:
    """Read a fleet file. Raises ConfigError naming the field and the remedy."""
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"fleet file {path} cannot be read ({error}); give a JSON object") from error
    fleet = parse(FleetConfig, raw, str(path))
    names = [group.name for group in fleet.groups]
    if len(set(names)) != len(names):
        raise ConfigError(f"fleet file {path}: two groups have one name; give each its own")
    return fleet
