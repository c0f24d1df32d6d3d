"""Runs a program on a device of its own and writes down what the device did, for Perfetto."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu.program import Program
from contracts.npu.spec import chip_of
from edge_agent.runtime.npu.climate import ClimateModel
from edge_agent.runtime.npu.device import DEFAULT_ARRAY_MODEL, NpuDevice
from edge_agent.runtime.npu.kernel_trace import perfetto_json, traced


@dataclass(frozen=True)
class TraceOptions:
    """What is traced: so many frames of one profile, at a frame rate, on one array model, perhaps with heat."""

    profile: str | int = 0
    frames: int = 2
    frames_per_second: float = 30.0
    array_model: str = DEFAULT_ARRAY_MODEL
    climate: ClimateModel | None = None
    seed: int = 0


def trace_program(program: Program, options: TraceOptions | None = None) -> str:
    """Return the trace (JSON) of random frames; raises KeyError for an unknown profile, NpuError, TraceTooLong."""
    options = options or TraceOptions()
    device = NpuDevice(
        chip_of(program.target), array_model=options.array_model, climate=options.climate, seed=options.seed, jitter=0.0
    )
    loaded = device.load(program)
    profile = program.profiles[program.profile_index(options.profile)]
    random = np.random.default_rng(options.seed)
    frames = []
    for _ in range(options.frames):
        frame = random.integers(0, 256, profile.input, dtype=np.uint8)
        result = device.infer(loaded, frame, profile.name)
        frames.append(traced(device, loaded, profile.name, result))
        device.idle(max(0.0, 1.0 / options.frames_per_second - result.simulated_ms / 1e3))
    return perfetto_json(frames, f"{program.target} ({options.array_model})")
