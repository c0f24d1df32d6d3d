"""What a device showed of a build: plain values that the gate judges and the evidence keeps.

A `Measurement` is one program of one bundle on one device class over one set of frames. It serialises to JSON and
back without loss, so a gate that was interrupted continues from the measurements already made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from services.builds.loading import Load


@dataclass(frozen=True)
class KernelCost:
    """One kernel as the device reported it: nominal simulated microseconds, bytes, and what bounds it."""

    name: str
    microseconds: float
    ddr_bytes: int
    bound_by: str


@dataclass(frozen=True)
class Measurement:
    """Simulated milliseconds, bytes a frame, quality in dB and LSB (None where it has no meaning)."""

    target: str
    program: str
    profile: str
    evaluation_set: str
    condition: str
    frames: int
    latency_ms: tuple[float, ...]
    ddr_bytes: int
    sram_peak: int
    psnr_db: float | None = None
    nearest_db: float | None = None
    flicker_lsb: float | None = None
    oracle_largest: int = 0
    oracle_share: float = 0.0
    oracle_values: int = 0
    kernels: tuple[KernelCost, ...] = field(default=())

    @property
    def latency_p99_ms(self) -> float:
        """99th percentile of the frames' latency."""
        return float(np.percentile(np.asarray(self.latency_ms), 99.0))

    def document(self) -> dict[str, Any]:  # Any: JSON
        """JSON form."""
        return asdict(self)

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Measurement:  # Any: JSON
        """Inverse of `document`."""
        values = dict(document)
        kernels = tuple(KernelCost(**row) for row in values.pop("kernels"))
        latency = tuple(float(value) for value in values.pop("latency_ms"))
        return Measurement(**values, latency_ms=latency, kernels=kernels)


@dataclass(frozen=True)
class Candidate:
    """A build as the gate sees it. `float_psnr` maps evaluation set names to dB of the FP32 model; `loads` are its
    programs with coded constants.
    """

    build_id: str
    size_bytes: int
    measurements: tuple[Measurement, ...]
    float_psnr: Mapping[str, float] = field(default_factory=dict)
    sram_limits: Mapping[str, int] = field(default_factory=dict)
    set_names: Mapping[str, str] = field(default_factory=dict)
    loads: tuple[Load, ...] = ()

    def name_of(self, evaluation_set: str) -> str:
        """Name of an evaluation set for people; its id where none is known."""
        return self.set_names.get(evaluation_set, evaluation_set)
