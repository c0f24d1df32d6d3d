"""How many dB an upscaled frame loses for the quantiser that its stream was coded with, measured on training clips.

`edge_agent.observers.stream` holds the numbers; `measure_line` is where they come from, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import shrink
from flows.data.corpus import Clip, read
from flows.data.degrade import Degradation, call
from flows.tasks.vsr.metrics import Upscaler, psnr_y

HEALTHY_CRF = 26.0
COARSER = (22.0, 28.0, 30.0, 32.0, 34.0, 36.0, 40.0)
_LINEAR_FROM = 24.0


@dataclass(frozen=True)
class StreamLine:
    """dB a step, the quantiser at which the line is zero, and the coarsest frame of healthy calls."""

    slope: float
    zero: float
    healthy_most: float


def measure_line(clips: Sequence[tuple[Clip, int]], upscale: Upscaler, frames: int = 10) -> StreamLine:
    """Play (clip, scale) at qualities from healthy to coarse; losses are against crf 20 of the same frame."""
    quantisers: list[NDArray[np.float64]] = []
    losses: list[NDArray[np.float64]] = []
    most = 0.0
    for clip, scale in clips:
        high = read(clip, limit=frames, scale=scale)
        low = shrink(high, 2)
        best = psnr_y(upscale(call(low, Degradation(crf=20.0), clip.fps).frames), high)
        most = max(most, float(call(low, Degradation(crf=HEALTHY_CRF), clip.fps).quantisers.max()))
        for crf in COARSER:
            received = call(low, Degradation(crf=crf), clip.fps)
            quantisers.append(received.quantisers)
            losses.append(best - psnr_y(upscale(received.frames), high))
    steps, lost = np.concatenate(quantisers), np.concatenate(losses)
    slope, offset = np.polyfit(steps[steps > _LINEAR_FROM], lost[steps > _LINEAR_FROM], 1)
    return StreamLine(float(slope), float(-offset / slope), most)
