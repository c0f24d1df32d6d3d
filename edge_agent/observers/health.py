"""Health of the bundle that runs: what the device would tell before anyone sees a bad picture.

Fidelity needs no reference: the output scaled down by its factor must look like the input, measured as mean
absolute difference in LSB. Latency is the device's own (emulated) time. Memory is bounded: latencies are kept
for the last `LIMITS.samples_kept` frames of a window.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.wire import Cause, HealthReport
from edge_agent.limits import LIMITS

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Played:
    """What happened to one frame. None means: not measured on this frame."""

    score: float | None = None
    upscaled: bool = False
    latency_ms: float | None = None
    relative: float | None = None
    """Latency divided by the device's reference for this frame size."""
    fidelity_lsb: float | None = None
    errors: int = 0
    on_cpu: bool = False
    lite: bool = False

    def joined(self, other: Played) -> Played:
        """Return one frame that was both observed and composed."""
        return replace(
            other,
            score=self.score,
            errors=self.errors + other.errors,
            on_cpu=self.on_cpu or other.on_cpu,
        )


def fidelity(frame: Pixels, image: Pixels) -> float:
    """Return mean |box-downscaled image - frame| in LSB; 255 when the sizes do not belong together."""
    height, width = frame.shape[:2]
    factor = image.shape[0] // height if height else 0
    if factor < 1 or image.shape != (height * factor, width * factor, frame.shape[2]):
        return 255.0
    if factor == 1:
        small = image.astype(np.float32)
    else:
        total = image[0::factor, 0::factor].astype(np.float32)
        for row in range(factor):
            for column in range(factor):
                if row or column:
                    total += image[row::factor, column::factor]
        small = total / (factor * factor)
    return float(np.abs(small - frame).mean())


class HealthWindow:
    """Counts of one bundle over a window of frames."""

    def __init__(self, budget_ms: float) -> None:
        self._budget = budget_ms
        self.reset()

    def reset(self) -> None:
        self.frames = self.upscaled = self.misses = self.errors = self.cpu_frames = self.lite_frames = 0
        self._latencies: deque[float] = deque(maxlen=LIMITS.samples_kept)
        self._relatives: deque[float] = deque(maxlen=LIMITS.samples_kept)
        self._fidelity, self._fidelities = 0.0, 0
        self._score, self._scores = 0.0, 0

    def add_fidelity(self, measure: Callable[[], float]) -> None:
        """Measure the fidelity of a frame that was added without; one other thread may do that."""
        value = measure()
        self._fidelity += value
        self._fidelities += 1

    def add(self, played: Played) -> None:
        self.frames += 1
        self.upscaled += played.upscaled
        self.errors += played.errors
        self.cpu_frames += played.on_cpu
        self.lite_frames += played.lite
        if played.latency_ms is not None:
            self._latencies.append(played.latency_ms)
            self.misses += played.latency_ms > self._budget
        if played.relative is not None:
            self._relatives.append(played.relative)
        if played.fidelity_lsb is not None:
            self._fidelity += played.fidelity_lsb
            self._fidelities += 1
        if played.score is not None:
            self._score += played.score
            self._scores += 1

    @property
    def fidelity_lsb(self) -> float:
        return self._fidelity / self._fidelities if self._fidelities else 0.0

    @property
    def miss_share(self) -> float:
        return self.misses / self.upscaled if self.upscaled else 0.0

    def latency(self, quantile: float) -> float:
        return float(np.quantile(self._latencies, quantile)) if self._latencies else 0.0

    def relative(self, quantile: float) -> float:
        return float(np.quantile(self._relatives, quantile)) if self._relatives else 0.0

    def report(self, digest: str, sequence: int, state: str) -> HealthReport:
        """Return the window as a message. Needs at least one frame."""
        return HealthReport(
            report_id=uuid.uuid4().hex,
            digest=digest,
            sequence=sequence,
            frames=self.frames,
            upscaled=self.upscaled,
            deadline_misses=self.misses,
            driver_errors=self.errors,
            cpu_frames=self.cpu_frames,
            lite_frames=self.lite_frames,
            latency_p50_ms=self.latency(0.50),
            latency_p99_ms=self.latency(0.99),
            latency_relative_p99=self.relative(0.99),
            budget_ms=self._budget,
            fidelity_lsb=min(255.0, self.fidelity_lsb),
            score_mean=float(np.clip(self._score / self._scores, -100, 100)) if self._scores else 0.0,
            state=state,
        )


@dataclass(frozen=True)
class TrialLimits:
    """When a bundle on trial is good enough, and when it is not. Times are simulated seconds."""

    frames: int = 60
    driver_errors: int = 3
    miss_share: float = 0.2
    misses: int = 3
    fidelity_lsb: float = 16.0
    fidelity_frames: int = 3
    timeout_s: float = 2 * 86_400.0


@dataclass(frozen=True)
class Verdict:
    """`done` and a cause: confirmed when the cause is NONE."""

    done: bool
    cause: Cause = Cause.NONE
    detail: str = ""


def judge(window: HealthWindow, age_s: float, limits: TrialLimits) -> Verdict:
    """Decide a trial from its window. Harm ends it at once; good health needs all the frames."""
    if window.errors >= limits.driver_errors:
        return Verdict(True, Cause.DRIVER_ERRORS, f"{window.errors} driver errors in {window.frames} frames")
    if window.misses >= limits.misses and window.miss_share > limits.miss_share:
        return Verdict(
            True,
            Cause.DEADLINE,
            f"{window.misses} of {window.upscaled} frames late, p99 {window.latency(0.99):.1f} ms",
        )
    if window.upscaled >= limits.fidelity_frames and window.fidelity_lsb > limits.fidelity_lsb:
        return Verdict(True, Cause.FIDELITY, f"{window.fidelity_lsb:.1f} LSB away from the input")
    if window.upscaled >= limits.frames:
        return Verdict(True)
    if age_s > limits.timeout_s:
        return Verdict(True, Cause.TIMEOUT, f"{window.upscaled} of {limits.frames} frames before the time was up")
    return Verdict(False)
