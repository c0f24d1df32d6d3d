"""What runs a bundle's networks: one interface, several backends, found by name.

Built in are `npu` (the emulated device) and `onnxruntime` (the CPU). A package adds one by an entry point of
the group `edgeloop.backends` that names a `BackendFactory` (docs/how-to/add-a-backend.md).

    BackendError
    ├── BackendUnknown    no backend has this name: install the package that brings it
    └── BackendFailed     one frame failed: the healing machine counts it and tries the next backend
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.npu.program import Program
from edge_agent.runtime.npu.climate import ClimateModel
from edge_agent.runtime.npu.faults import Faults

ENTRY_POINT_GROUP = "edgeloop.backends"
Pixels = NDArray[np.uint8]


class BackendError(Exception):
    """Base of what backends raise by themselves."""


class BackendUnknown(BackendError):
    """No backend of this name is installed."""


class BackendFailed(BackendError):
    """A frame could not be computed."""


class FrameUnfit(ValueError):
    """The frame fits no profile of the bundle: the caller scales it to one of `sizes` first."""


@dataclass(frozen=True)
class Span:
    """Part of a frame's work: milliseconds from the start of the frame."""

    name: str
    start_ms: float
    duration_ms: float
    detail: dict[str, float | int | str] = field(default_factory=dict)


def no_spans() -> Sequence[Span]:
    """Return nothing: for backends that do not time their parts."""
    return ()


@dataclass(frozen=True)
class Upscaled:
    """uint8 [2h, 2w, 3] that the caller owns; simulated milliseconds, None where time is the host's own."""

    image: Pixels
    simulated_ms: float | None
    spans: Callable[[], Sequence[Span]] = no_spans
    lite: bool = False
    """A smaller engine than the bundle's full one made it."""


@dataclass(frozen=True)
class Observation:
    """Features uint8 [h, w, 16] at 1/32 resolution, and the pooled embedding float32 [256]."""

    features: Pixels
    embedding: NDArray[np.float32]
    simulated_ms: float | None


class Backend(Protocol):
    """Runs the two networks of one bundle. Not for several threads at once."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """Heights and widths of frames that it takes; empty: any with even sides."""

    def load(self, bundle: Bundle, device_class: str) -> None:
        """Take this bundle; on an error the backend goes on with the one before.

        Raises BundleError, NpuError (ProgramRefused and below).
        """

    def upscale(self, frame: Pixels) -> Upscaled:
        """Raises FrameUnfit; BackendFailed or DriverError when this frame failed."""

    def observe(self, frame: Pixels) -> Observation:
        """Raises FrameUnfit; BackendFailed or DriverError when this frame failed."""


@runtime_checkable
class StreamBackend(Protocol):
    """What a backend adds when its nets may keep something from frame to frame."""

    def reset(self) -> None:
        """Begin a new stream: the next frame sees states as before the first one. Never fails."""


@runtime_checkable
class LiteBackend(Protocol):
    """What a backend adds when bundles may hold a smaller engine for it."""

    def lighten(self, reason: str) -> None:
        """From the next frame on run the smaller engine because of `reason`, or the full one when it is empty. Never
        fails; a bundle without a smaller engine goes on as before.
        """


@dataclass(frozen=True)
class BackendOptions:
    """What a backend may want to know of the device; `shared` says that many devices live in this process, `marker`
    marks a program of a bundle's file before it is loaded. With a `climate` an emulated device heats up, slows down and
    runs empty, and rests for what is left of `frame_s` seconds between two frames.
    """

    faults: Faults = field(default_factory=Faults)
    seed: int = 0
    shared: bool = False
    climate: ClimateModel | None = None
    frame_s: float = 0.0
    marker: Callable[[Program, Path], Program] | None = None


BackendFactory = Callable[[BackendOptions], Backend]


def dequantized_mean(codes: NDArray[np.uint8], scale: float, zero_point: int) -> NDArray[np.float32]:
    """Return the mean over positions of a quantised map [h, w, c], as float32 [c]."""
    mean: NDArray[np.float64] = codes.reshape(-1, codes.shape[-1]).mean(axis=0, dtype=np.float64)
    return ((mean - zero_point) * scale).astype(np.float32)


def make_backend(name: str, options: BackendOptions, builtin: dict[str, BackendFactory]) -> Backend:
    """Return a new backend: built in, or found by entry point; raises BackendUnknown."""
    if name in builtin:
        return builtin[name](options)
    found = entry_points(group=ENTRY_POINT_GROUP)
    for entry in found:
        if entry.name == name:
            factory: BackendFactory = entry.load()
            return factory(options)
    known = sorted({*builtin, *(entry.name for entry in found)})
    raise BackendUnknown(f"no backend {name!r}; installed: {', '.join(known)}")
