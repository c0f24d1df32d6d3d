"""Where the numbers of `edge_agent.observers.evidence` come from: losses of the shipped model on training clips.

`measure` plays clips under one fault at a time and gives, for each kind of evidence, its measure and the measured loss
of every frame, and the measures of healthy frames. A test fits the lines anew and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames, shrink
from flows.data.codec import Received
from flows.data.corpus import Clip, read
from flows.data.degrade import Degradation, call
from flows.tasks.vsr.metrics import Upscaler, psnr_y

HEALTHY = tuple(Degradation(crf=crf) for crf in (18.0, 22.0, 26.0))
FAULTS = {
    "stream": tuple(Degradation(crf=crf) for crf in (22.0, 28.0, 30.0, 32.0, 34.0, 36.0, 40.0)),
    "grain": tuple(Degradation(noise=noise) for noise in (12.0, 16.0, 20.0, 24.0, 28.0)),
    "softness": tuple(Degradation(blur=blur) for blur in (0.4, 0.6, 0.9, 1.2, 1.6)),
}
Measure = Callable[[Received], NDArray[np.float64]]


@dataclass
class Evidence:
    """Of one kind: measures of faulty frames with their losses in dB, and measures of healthy frames."""

    measures: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    healthy: list[float] = field(default_factory=list)

    def line(self, low: float, high: float) -> tuple[float, float]:
        """(slope, zero) of the straight line through faulty frames whose measure lies between `low` and `high`."""
        steps, lost = np.array(self.measures), np.array(self.losses)
        inside = (steps > low) & (steps < high)
        slope, offset = np.polyfit(steps[inside], lost[inside], 1)
        return float(slope), float(-offset / slope)


def measure(
    clips: Sequence[tuple[Clip, int]], upscale: Upscaler, measures: dict[str, Measure], frames: int = 8
) -> dict[str, Evidence]:
    """Play (clip, scale) healthy and with each fault; losses are against crf 20 of the same frame."""
    found = {kind: Evidence() for kind in measures}
    for clip, scale in clips:
        high = read(clip, limit=frames, scale=scale)
        low = shrink(high, 2)
        best = _quality(low, Degradation(crf=20.0), high, clip.fps, upscale)[1]
        for healthy in HEALTHY:
            received = call(low, healthy, clip.fps)
            for kind, take in measures.items():
                found[kind].healthy += list(take(received))
        for kind, faults in FAULTS.items():
            for fault in faults:
                received, psnr = _quality(low, fault, high, clip.fps, upscale)
                found[kind].measures += list(measures[kind](received))
                found[kind].losses += list(best - psnr)
    return found


def _quality(
    low: Frames, degradation: Degradation, high: Frames, fps: float, upscale: Upscaler
) -> tuple[Received, NDArray[np.float64]]:
    received = call(low, degradation, fps)
    return received, psnr_y(upscale(received.frames), high)
