"""What this machine does to anybody: the limit below which no switch can be measured.

A bare exchange of two names, a write that is flushed, and a loop of a millisecond that only counts: how much longer
each took by the clock than by the processor is the machine's. One thread, nothing else in the process at work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edge_agent.disk import Disk
from edge_agent.exchange import ExchangeUnsupported
from edgeloop.figures import Figure

ROUNDS = 200
SLICES = 1_000
SLICE_S = 0.001


@dataclass
class Noise:
    """Milliseconds of every exchange and flushed write, and by which every slice was held up."""

    exchanges: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    held_up: list[float] = field(default_factory=list)

    def listen(self, folder: Path, rounds: int = ROUNDS, slices: int = SLICES) -> None:
        """Measure now; may be called again."""
        disk, one, other = Disk(), folder / "noise.one", folder / "noise.two"
        for path in (one, other):
            disk.write(path, bytes(900))
        for _ in range(rounds):
            self.writes.append(_timed(lambda: disk.replace(one, bytes(900))))
            self.exchanges.append(_timed(lambda: _exchanged(disk, one, other)))
        for _ in range(slices):
            began, worked = time.perf_counter(), time.thread_time()
            while time.thread_time() - worked < SLICE_S:
                pass
            self.held_up.append((time.perf_counter() - began - (time.thread_time() - worked)) * 1e3)


def noise_figures(noise: Noise) -> list[Figure]:
    """Median, 99th percentile and worst of each."""
    shown = (
        ("exchange", noise.exchanges, "ms, a bare exchange of names"),
        ("flushed_write", noise.writes, "ms, what no frame waits for"),
        ("hold_up", noise.held_up, "ms that a loop of 1 ms took longer than its CPU time"),
    )
    return [
        Figure(f"machine.{name}.{word}", round(float(np.quantile(values, quantile)), 3), unit, "printed", True)
        for name, values, unit in shown
        for word, quantile in (("median", 0.5), ("p99", 0.99), ("worst", 1.0))
    ]


def no_core_ms() -> float:
    """Milliseconds that the calling thread was ready and had no core, since its start; 0 where no kernel tells."""
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(descriptor, 100).split()[1]) / 1e6
    finally:
        os.close(descriptor)


def _exchanged(disk: Disk, one: Path, other: Path) -> None:
    try:
        disk.exchange(one, other)
    except ExchangeUnsupported:
        disk.rename(one, other)
        disk.write(one, bytes(900))


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3
