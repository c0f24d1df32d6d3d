"""What a device pays when the next frame has another profile.

A switch is measured as the difference between a frame behind a frame of the other kind and one behind its own kind;
frames are small so that the difference is not lost in them.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import net_named, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice

SIZES = ((36, 64), (48, 64))
ROUNDS = 15


@dataclass(frozen=True)
class Switch:
    """Host and simulated milliseconds of one switch, and the bytes that it had to allocate."""

    host_ms: float
    simulated_ms: float
    allocated: int


def profile_switch() -> Switch:
    """Between two input sizes of one program, the one with the largest constants."""
    data, _ = compile_program(qdq_model(quantized_net(net_named("c64x16"))), TARGET, list(SIZES))
    run = runner(Program.open(data))
    return measured([partial(run, size, None) for size in SIZES])


def runner(program: Program) -> Callable[[tuple[int, int], str | None], float]:
    """Runs a frame of a size on a device of its own; the simulated milliseconds."""
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = device.load(program, bind_all=True)
    frames = {size: smooth_frame(*size, seed=1) for size in SIZES}
    return lambda size, profile: device.infer(loaded, frames[size], profile).simulated_ms


def measured(runs: Sequence[Callable[[], float]]) -> Switch:
    """The cost of the second run behind the first."""
    one, other = runs
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
    return Switch(max(0.0, difference * 1000), statistics.median(simulated), _allocated(one, other))


def _allocated(one: Callable[[], float], other: Callable[[], float]) -> int:
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
