"""What happened, as plain values: the report is drawn from this and from nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeloop.figures import Figure

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class StepTime:
    """One step of the demo: when it began (seconds since the start), how long it took, the simulated day."""

    name: str
    began_s: float
    seconds: float
    sim_day: float


@dataclass(frozen=True)
class DriftPoint:
    """One cohort on one simulated day; `z` in sigma, `d` as an effect size."""

    cohort: str
    day: int
    state: str
    z: float | None
    d: float | None
    changed: bool


@dataclass(frozen=True)
class FleetPoint:
    """How many devices ran which release at a moment (seconds since the start)."""

    at_s: float
    running: dict[str, int]


@dataclass(frozen=True)
class QualityRow:
    """PSNR (dB, luma) of one held-out recording under the old and the new model and plain interpolation."""

    clip: str
    condition: str
    interpolation: float
    old: float
    new: float


@dataclass(frozen=True)
class Picture:
    """Crops of one frame side by side."""

    title: str
    images: tuple[tuple[str, Image], ...]


@dataclass
class Story:
    """Everything that the report shows."""

    pace: str = ""
    began: float = field(default_factory=time.monotonic)
    steps: list[StepTime] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    drift: list[DriftPoint] = field(default_factory=list)
    fleet: list[FleetPoint] = field(default_factory=list)
    quality: list[QualityRow] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    learning: dict[str, object] = field(default_factory=dict)

    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self.began

    @contextmanager
    def step(self, name: str, sim_day: float = 0.0) -> Iterator[None]:
        """Note how long a step took, also when it fails."""
        began = self.seconds()
        try:
            yield
        finally:
            self.steps.append(StepTime(name, round(began, 2), round(self.seconds() - began, 2), sim_day))
