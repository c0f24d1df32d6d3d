"""What a network reaches on pairs: luma PSNR, LPIPS, flicker where nothing moves. 8-bit outputs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from torch import nn

from flows.data.pairs import PairSet
from flows.perceptual.flicker import still_flicker
from flows.perceptual.lpips import Lpips, lpips_of
from flows.perceptual.weights import available, fetch
from flows.tasks.vsr.metrics import Upscaler, as_upscaler, psnr_y

_LPIPS_FRAMES = 3


@dataclass(frozen=True)
class Judgement:
    """dB, LPIPS distance (AlexNet, every few frames), LSB."""

    psnr: float
    lpips: float
    flicker: float

    def to_dict(self) -> dict[str, float]:
        """As JSON."""
        return asdict(self)


def judged(model: nn.Module | Upscaler, pairs: PairSet) -> Judgement:
    """Means over frames (PSNR), looked-at frames (LPIPS) and pairs (flicker)."""
    upscale, metric = as_upscaler(model), lpips_metric()
    levels: list[np.ndarray] = []
    distances: list[np.ndarray] = []
    flickers: list[float] = []
    for pair in pairs.pairs:
        output = upscale(pair.low)
        levels.append(psnr_y(output, pair.high))
        every = max(1, len(output) // _LPIPS_FRAMES)
        distances.append(lpips_of(metric, output[::every], pair.high[::every]))
        flickers.append(still_flicker(output, pair.high))
    return Judgement(
        float(np.concatenate(levels).mean()), float(np.concatenate(distances).mean()), float(np.mean(flickers))
    )


@lru_cache(maxsize=1)
def lpips_metric() -> Lpips:
    """LPIPS with its published weights, fetched when they are not here."""
    if not available("lpips"):
        fetch("lpips")
    return Lpips()
