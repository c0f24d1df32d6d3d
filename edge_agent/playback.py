"""What the frame loop needs of a loaded bundle, and nothing more.

The loop does not know whether an NPU, the CPU or a shared engine answers; it learns per frame what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.statistics import ObserverParameters
from edge_agent.sources import SourceFrame

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Enhanced:
    """A composed frame (u8 2H x 2W x 3), its time on the device and its distance from the input.

    No image: it was measured for a device that shows nothing.
    """

    image: Pixels | None
    latency_ms: float | None
    fidelity_lsb: float | None
    """None where `measure` tells it, on whatever thread."""
    errors: int = 0
    on_cpu: bool = False
    lite: bool = False
    """A smaller engine of the bundle made it."""
    measure: Callable[[], float] | None = None


@dataclass(frozen=True)
class Seen:
    """What the quality net saw: features u8 rows x columns x 16, embedding float32[256]."""

    features: NDArray[np.uint8]
    embedding: NDArray[np.float32]
    errors: int = 0
    on_cpu: bool = False


class Playback(Protocol):
    """A verified bundle, loaded."""

    @property
    def digest(self) -> str:
        """SHA-384 of the bundle file, hexadecimal."""

    @property
    def version(self) -> str:
        """Release version."""

    @property
    def observer(self) -> ObserverParameters:
        """Score, reference units and threshold."""

    @property
    def state(self) -> str:
        """normal, degraded or disabled."""

    def begin(self) -> None:
        """Begin a new stream: forget what the net keeps from frame to frame."""

    def upscale(self, frame: SourceFrame) -> Enhanced:
        """Compose one frame."""

    def observe(self, frame: SourceFrame) -> Seen:
        """Score one frame."""


@runtime_checkable
class LitePlayback(Protocol):
    """What a playback adds when its bundle may have a smaller engine."""

    def lighten(self, reason: str) -> None:
        """From the next frame on take the smaller engine because of `reason`, or the full one when it is empty."""


class Loader(Protocol):
    """Turns a verified bundle into a playback; the only way from a file to a running program."""

    def load(self, bundle: Bundle) -> Playback:
        """Raises BundleError or NpuError when the bundle cannot run on this device."""
