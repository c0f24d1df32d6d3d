"""A program on a device, the result of a frame, and which profile a frame belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Program
from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.climate import Conditions
from edge_agent.runtime.npu.coded import decode_ns
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.errors import FrameRefused
from edge_agent.runtime.npu.timing import FrameTime


@dataclass(frozen=True)
class RunResult:
    """One frame: outputs by name (uint8 [h, w, c], owned by the caller), and the simulated time."""

    outputs: dict[str, NDArray[np.uint8]]
    simulated_ms: float
    stretch: float
    """What the nominal time of the frame, and of each kernel, was multiplied by."""

    time: FrameTime
    began_s: float = 0.0
    """The device's simulated clock when the frame began."""

    conditions: Conditions | None = None
    """Heat and charge behind the frame; None when the device has no climate."""


@dataclass(frozen=True)
class LoadedProgram:
    """A program on a device; its profiles are bound when they first run."""

    program: Program
    digests: tuple[bytes, ...]
    """What tells the content of each profile apart."""

    faulty: bool

    def decode_ns(self, spec: NpuSpec) -> float:
        """Simulated nanoseconds that decoding its constants took when it was loaded; 0 for plain ones."""
        return decode_ns(self.program, spec)

    @property
    def build_id(self) -> str:
        """Hexadecimal build id."""
        return self.program.build_id.hex()


def find_profile(program: Program, frame: Bytes, profile: str | int | None) -> int:
    """Return the index of the profile that takes `frame`; raises FrameRefused."""
    shapes = {entry.name: entry.input for entry in program.profiles}
    fits = f"give uint8 of one of {shapes}"
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3:
        kind = f"{getattr(frame, 'dtype', type(frame).__name__)} {getattr(frame, 'shape', '')}"
        raise FrameRefused(f"a frame of {kind}", "infer", fits)
    for index, entry in enumerate(program.profiles):
        if profile in (None, index, entry.name) and entry.input == frame.shape:
            return index
    wanted = "" if profile is None else f" for profile {profile}"
    raise FrameRefused(f"a frame of {frame.shape}{wanted}", "infer", fits)
