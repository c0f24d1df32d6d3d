"""What a lab answers: facts about the device, profiles, and measured runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LabInfo:
    """The device behind the lab."""

    protocol: int
    device_class: str
    engine: str
    driver: str
    array_model: str


@dataclass(frozen=True)
class LabProfile:
    """One input size of a loaded program."""

    name: str
    height: int
    width: int
    channels: int
    sram_peak: int
    ddr_bytes: int


@dataclass(frozen=True)
class KernelRow:
    """One kernel launch: nominal simulated times in microseconds, traffic, and what bounds it."""

    name: str
    microseconds: float
    compute_us: float
    stream_us: float
    ddr_bytes: int
    commands: int
    bound_by: str


@dataclass(frozen=True)
class LabResult:
    """Frames that ran: outputs [n, h, w, c] by name, and simulated milliseconds of each frame.

    `latency_ms` carries the device's own jitter; `nominal_ms` (by array model) and `kernels` do not.
    """

    outputs: dict[str, NDArray[np.uint8]]
    latency_ms: NDArray[np.float64]
    kernels: list[KernelRow]
    nominal_ms: dict[str, float]
    ddr_bytes: int
    sram_peak: int
    build_id: str
