"""What a device pays when the next frame has another profile.

Time is the larger of two: the switch alone as the device measures it, and a frame behind a frame of the other kind
less one behind its own kind, so that nothing which a switch puts off is forgotten. Frames are small so that the
difference is not lost in them. Arrays held are counted over switches alone, peak bytes over whole frames.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import net_named, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import LoadedProgram, NpuDevice
from edge_agent.runtime.npu.switching import measure_switch

SIZES = ((36, 64), (48, 64))
ROUNDS = 15


@dataclass(frozen=True)
class Switch:
    """Host and simulated milliseconds of one switch, bytes of arrays it made, bytes needed above a steady frame."""

    host_ms: float
    simulated_ms: float
    arrays: int
    peak: int


def profile_switch() -> Switch:
    """Between two input sizes of one program, the one with the largest constants."""
    data, _ = compile_program(qdq_model(quantized_net(net_named("c64x16"))), TARGET, list(SIZES))
    return switch(Program.open(data), [(f"{height}x{width}", (height, width)) for height, width in SIZES])


def switch(program: Program, profiles: Sequence[tuple[str, tuple[int, int]]]) -> Switch:
    """From the first of two profiles (name, frame size) to the second, on a device of its own."""
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = device.load(program, bind_all=True)
    one, other = (partial(_simulated, device, loaded, name, smooth_frame(*size, seed=1)) for name, size in profiles)
    host, simulated, peak = measured(one, other)
    alone = measure_switch(device, loaded, [name for name, _ in profiles])
    return Switch(max(host, alone.median_ms), max(simulated, alone.simulated_ms), alone.array_bytes, peak)


def _simulated(device: NpuDevice, loaded: LoadedProgram, profile: str, frame: npt.NDArray[np.uint8]) -> float:
    return device.infer(loaded, frame, profile).simulated_ms


def measured(one: Callable[[], float], other: Callable[[], float]) -> tuple[float, float, int]:
    """Host and simulated milliseconds and peak bytes that `other` takes more behind `one` than behind itself."""
    for run in (one, other, one):
        run()
    switched, steady, simulated = [], [], []
    for _ in range(ROUNDS):
        one()
        start = time.perf_counter()
        first = other()
        switched.append(time.perf_counter() - start)
        simulated.append(first - other())
        start = time.perf_counter()
        other()
        steady.append(time.perf_counter() - start)
    difference = statistics.median(switched) - statistics.median(steady)
    return max(0.0, difference * 1000), statistics.median(simulated), _peak(one, other)


def _peak(one: Callable[[], float], other: Callable[[], float]) -> int:
    """Peak bytes of a switching frame above those of a frame that does not switch."""
    tracemalloc.start()
    try:
        peaks = []
        for before in (other, one, other, one):
            before()
            tracemalloc.reset_peak()
            base = tracemalloc.get_traced_memory()[0]
            other()
            peaks.append(tracemalloc.get_traced_memory()[1] - base)
        return max(0, peaks[3] - peaks[2])
    finally:
        tracemalloc.stop()
