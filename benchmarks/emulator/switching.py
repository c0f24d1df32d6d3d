"""What a device pays when the next frame has another profile, or comes from another width of the net.

The switch is measured as the difference between a frame behind a frame of the other kind and one behind its own
kind; frames are small so that the difference is not lost in them. Constants are those of the largest reference net.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import NetShape, net_named, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import LoadedProgram, NpuDevice

SIZES = ((36, 64), (48, 64))
WIDTHS = ("c64x16", "c32x8")
ROUNDS = 15


@dataclass(frozen=True)
class Switch:
    """Host and simulated milliseconds of one switch, and the bytes that it had to allocate."""

    host_ms: float
    simulated_ms: float
    allocated: int


def profile_switch() -> Switch:
    """Between two input sizes of one program."""
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = _loaded(device, net_named("c64x16"), SIZES)
    return _measured([_infer(device, loaded, size) for size in SIZES])


def width_switch() -> Switch:
    """Between two widths of the net, both loaded on the device."""
    device = NpuDevice(TARGET, jitter=0.0)
    return _measured(
        [_infer(device, _loaded(device, net_named(name), SIZES[:1]), SIZES[0]) for name in WIDTHS],
    )


def _loaded(device: NpuDevice, shape: NetShape, sizes: Sequence[tuple[int, int]]) -> LoadedProgram:
    data, _ = compile_program(qdq_model(quantized_net(shape)), TARGET, list(sizes))
    return device.load(Program.open(data), bind_all=True)


def _infer(device: NpuDevice, loaded: LoadedProgram, size: tuple[int, int]) -> Callable[[], float]:
    frame = smooth_frame(*size, seed=1)
    return lambda: device.infer(loaded, frame).simulated_ms


def _measured(runs: Sequence[Callable[[], float]]) -> Switch:
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
        steady.append(_seconds(other))
    difference = statistics.median(switched) - statistics.median(steady)
    return Switch(max(0.0, difference * 1000), statistics.median(simulated), _allocated(one, other))


def _seconds(run: Callable[[], float]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


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
