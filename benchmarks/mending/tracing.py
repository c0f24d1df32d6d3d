"""What a trace costs a frame: the same frames with and without, in turn, so that both meet the same machine.

Host time of `Runner.upscale`. On the real backend the difference is small against the frame itself; a backend that
returns a made picture shows the trace alone. One frame in a hundred is sampled with all its spans, as always.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contracts.bundle import Bundle
from contracts.clock import SystemClock
from edge_agent.runtime.backend import BackendOptions, Observation, Pixels, Span, Upscaled
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.runtime.runner import Runner
from edge_agent.runtime.trace import TraceRing, Untraced

SPANS = 36
"""Kernels of a frame of the reference net of the articles, unfused."""


@dataclass(frozen=True)
class Cost:
    """Microseconds a frame: the median and 99th percentile of traced minus untraced, and the frame itself."""

    median: float
    worst: float
    mean: float
    frame: float
    frames: int


class Made:
    """A backend that returns the same picture at once, with spans when asked."""

    name = "made"
    sizes: Sequence[tuple[int, int]] = ()

    def __init__(self) -> None:
        spans = [Span(f"kernel{index}", index * 0.1, 0.1, {"ddr_bytes": 1_000}) for index in range(SPANS)]
        self._upscaled = Upscaled(np.zeros((144, 176, 3), np.uint8), 5.0, lambda: spans)

    def load(self, bundle: Bundle, device_class: str) -> None:
        return None

    def upscale(self, frame: Pixels) -> Upscaled:
        return self._upscaled

    def observe(self, frame: Pixels) -> Observation:
        raise NotImplementedError


def made_cost(frames: int = 20_000) -> Cost:
    """The trace alone."""
    return _cost(Runner(Made(), None, SystemClock()), frames)


def real_cost(bundle: Path, frames: int = 3_000) -> Cost:
    """On the emulated NPU."""
    runner = Runner(NpuBackend(BackendOptions()), None, SystemClock())
    runner.load(Bundle.open(bundle), "npu-4t")
    return _cost(runner, frames)


def _cost(runner: Runner, frames: int) -> Cost:
    frame = np.random.default_rng(0).integers(0, 256, (72, 88, 3), dtype=np.uint8)
    traces = (TraceRing(), Untraced())
    for _ in range(50):
        runner.upscale(frame)
    spent: tuple[list[float], list[float]] = ([], [])
    for index in range(frames):
        for side in (0, 1) if index % 2 else (1, 0):
            runner.trace = traces[side]
            start = time.perf_counter_ns()
            runner.upscale(frame)
            spent[side].append((time.perf_counter_ns() - start) / 1e3)
    extra = [on - off for on, off in zip(*spent, strict=True)]
    return Cost(
        median=statistics.median(spent[0]) - statistics.median(spent[1]),
        worst=float(np.quantile(extra, 0.99)),
        mean=statistics.fmean(spent[0]) - statistics.fmean(spent[1]),
        frame=statistics.median(spent[1]),
        frames=frames,
    )
