"""Measures what it costs the host to make another profile of a program ready on a device."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_agent.runtime.npu.device import LoadedProgram, NpuDevice


@dataclass(frozen=True)
class SwitchCost:
    """Host milliseconds of one switch (median and worst), simulated milliseconds, and the host bytes that it took:
    the most at one time, Python's own numbers included, and those of arrays still held after all switches.
    """

    median_ms: float
    worst_ms: float
    simulated_ms: float
    peak_bytes: int
    array_bytes: int


def measure_switch(
    device: NpuDevice, loaded: LoadedProgram, profiles: Sequence[str | int], rounds: int = 50
) -> SwitchCost:
    """Return the cost of going round `profiles`; they are bound first, which is part of loading a program."""
    if len(profiles) < 2:
        raise ValueError("a switch needs two profiles")
    for profile in (*profiles, *profiles):
        device.make_ready(loaded, profile)
    turns = [profile for _ in range(rounds) for profile in profiles]
    spent, simulated = [], []
    for profile in turns:
        start = time.perf_counter()
        simulated.append(device.make_ready(loaded, profile))
        spent.append((time.perf_counter() - start) * 1e3)
    peak, arrays = _allocated(device, loaded, turns)
    return SwitchCost(statistics.median(spent), max(spent), statistics.median(simulated), peak, arrays)


def _allocated(device: NpuDevice, loaded: LoadedProgram, turns: Sequence[str | int]) -> tuple[int, int]:
    """Return (bytes at one time above those before, bytes of arrays held behind all turns)."""
    tracemalloc.start()
    try:
        for profile in turns:
            device.make_ready(loaded, profile)  # whatever Python keeps for itself it has now
        arrays = _array_bytes()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for profile in turns:
            device.make_ready(loaded, profile)
        _, peak = tracemalloc.get_traced_memory()
        return peak - before, _array_bytes() - arrays
    finally:
        tracemalloc.stop()


def _array_bytes() -> int:
    domain = np.lib.tracemalloc_domain
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, domain)])
    return sum(trace.size for trace in traces.traces)
