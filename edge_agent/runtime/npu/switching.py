"""Measures what it costs the host to make another profile of a program ready on a device."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

from edge_agent.runtime.npu.device import LoadedProgram, NpuDevice


@dataclass(frozen=True)
class SwitchCost:
    """Host milliseconds of one switch (median and worst), simulated milliseconds, and the host bytes that it took:
    the most at one time, and those still held after all switches.
    """

    median_ms: float
    worst_ms: float
    simulated_ms: float
    peak_bytes: int
    held_bytes: int


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
    peak, held = _allocated(device, loaded, turns)
    return SwitchCost(statistics.median(spent), max(spent), statistics.median(simulated), peak, held)


def _allocated(device: NpuDevice, loaded: LoadedProgram, turns: Sequence[str | int]) -> tuple[int, int]:
    tracemalloc.start()
    try:
        for profile in turns:
            device.make_ready(loaded, profile)  # whatever Python keeps for itself it has now
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for profile in turns:
            device.make_ready(loaded, profile)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before, after - before
