"""Ranges of activations from streaming histograms: min-max, a percentile or, when asked for, the range of least KL
divergence, whichever rounds the tensor better.

A histogram has a fixed number of bins and widens itself, so memory does not grow with the number of frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from flows.errors import FlowError
from flows.quant.divergence import kl_range
from flows.quant.lsq import ActivationQuantizer, set_enabled

_BINS = 2048
_PERCENTILES = (99.9, 99.99, 99.999)
_STEPS = 255


class CalibrationError(FlowError):
    """A tensor was never seen, or holds no finite value: the calibration frames do not reach it."""


@dataclass(frozen=True)
class Grid:
    """Scale, zero point, and the rule that gave them."""

    scale: float
    zero_point: int
    rule: str


class StreamingHistogram:
    """Counts over [low, high], widened by merging bins when a value falls outside."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.edge = 0.0
        self.counts = np.zeros(_BINS)

    def observe(self, x: Tensor) -> None:
        """Add all values of x."""
        flat = x.float().flatten()
        if not bool(torch.isfinite(flat).all()):
            raise CalibrationError("calibration met a value that is not finite; the float network is broken")
        low, high = float(flat.min()), float(flat.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._widen(max(abs(low), abs(high)))
        histogram = torch.histc(flat, _BINS, -self.edge, self.edge)
        self.counts += histogram.numpy()

    def centres(self) -> np.ndarray:
        """Middle of each bin."""
        width = 2.0 * self.edge / _BINS
        return np.asarray(-self.edge + width * (np.arange(_BINS) + 0.5))

    def _widen(self, peak: float) -> None:
        if self.edge == 0.0:
            self.edge = max(peak, 1e-6)
            return
        while self.edge < peak:
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros(_BINS)
            self.counts[_BINS // 4 : 3 * _BINS // 4] = merged
            self.edge *= 2.0


def choose_grid(histogram: StreamingHistogram, *, kl: bool = False) -> Grid:
    """The candidate grid with the smallest mean squared rounding error over the histogram.

    With `kl` the range of least KL divergence is a candidate too; it wins only when it rounds better than the others.
    """
    if histogram.counts.sum() == 0:
        raise CalibrationError("a tensor was never reached while calibrating; give at least one frame")
    ranges = [("min-max", histogram.low, histogram.high)]
    ranges += [(f"percentile {share}", *_percentile(histogram, share)) for share in _PERCENTILES]
    if kl:
        ranges.append(("kl", *kl_range(histogram.centres(), histogram.counts, histogram.low, histogram.high)))
    grids = [_grid(rule, low, high) for rule, low, high in ranges]
    return min(grids, key=lambda grid: rounding_error(histogram, grid))


def calibrate(network: nn.Module, batches: Iterable[Tensor], *, kl: bool = False) -> dict[str, Grid]:
    """Run float batches through a quantised network with rounding off, then set every grid that is not pinned."""
    grids = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, ActivationQuantizer) and not module.pinned
    }
    histograms = {name: StreamingHistogram() for name in grids}
    set_enabled(network, activations=False, weights=False)
    for name, module in grids.items():
        module.observer = histograms[name]
    with torch.inference_mode():
        for batch in batches:
            network(batch)
    chosen: dict[str, Grid] = {}
    for name, module in grids.items():
        module.observer = None
        chosen[name] = choose_grid(histograms[name], kl=kl)
        module.set_range(chosen[name].scale, chosen[name].zero_point)
    set_enabled(network, activations=True, weights=True)
    return chosen


def _grid(rule: str, low: float, high: float) -> Grid:
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / _STEPS, 1e-8)
    return Grid(float(np.float32(scale)), int(np.clip(round(-low / scale), 0, 255)), rule)


def _percentile(histogram: StreamingHistogram, share: float) -> tuple[float, float]:
    cumulative = np.cumsum(histogram.counts) / histogram.counts.sum()
    centres = histogram.centres()
    tail = (100.0 - share) / 100.0
    low = centres[int(np.searchsorted(cumulative, tail))]
    high = centres[min(int(np.searchsorted(cumulative, 1.0 - tail)), _BINS - 1)]
    return max(float(low), histogram.low), min(float(high), histogram.high)


def rounding_error(histogram: StreamingHistogram, grid: Grid) -> float:
    """Sum over all observed values of the squared distance to the grid."""
    values = np.clip(histogram.centres(), histogram.low, histogram.high)
    codes = np.clip(np.rint(values / grid.scale) + grid.zero_point, 0, 255)
    error = (codes - grid.zero_point) * grid.scale - values
    return float((histogram.counts * error**2).sum())
