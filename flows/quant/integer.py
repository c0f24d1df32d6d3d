"""Integer inference in torch, rounding for rounding: what docs/reference/arithmetic.md writes, over float tensors.

Codes are whole numbers in float32 tensors. A sum that is rounded in another order than the device's meets a tie now
and then, and one flipped code in an early layer reaches hundreds of output pixels; so the order is the device's.
"""

from __future__ import annotations

from torch import Tensor

from flows.quant.lsq import ActivationQuantizer


def requantized(total: Tensor, scales: Tensor, grid: ActivationQuantizer, *, relu: bool) -> Tensor:
    """Accumulators [n, c, h, w] at `scales` [c] onto `grid`: its real values, the section "Convolution" of the page."""
    multiplier = (scales / grid.scale.float()).view(1, -1, 1, 1)
    low = float(grid.zero_point) if relu else 0.0
    codes = ((total * multiplier).round() + grid.zero_point).clamp(low, 255.0)
    return (codes - grid.zero_point) * grid.scale


def added(
    a: Tensor,
    on_a: ActivationQuantizer,
    b: Tensor,
    on_b: ActivationQuantizer,
    grid: ActivationQuantizer,
    *,
    relu: bool = False,
) -> Tensor:
    """Sum of `a` (the convolution's result) and `b` (the trunk) onto `grid`: the section "Addition" of the page."""
    scale = grid.scale.float()
    ratio_a, ratio_b = on_a.scale.float() / scale, on_b.scale.float() / scale
    code_a = (a / on_a.scale).round() + on_a.zero_point
    code_b = (b / on_b.scale).round() + on_b.zero_point
    moved = _fused(on_a.zero_point, ratio_a, ratio_b * on_b.zero_point)
    inner = _fused(code_b, ratio_b, grid.zero_point - moved)
    codes = _fused(code_a, ratio_a, inner).round().clamp(float(grid.zero_point) if relu else 0.0, 255.0)
    return (codes - grid.zero_point) * grid.scale


def _fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) rounded once."""
    return (a.double() * b.double() + c.double()).float()
