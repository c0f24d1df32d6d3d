"""Fake quantisation with learned scales (LSQ), exact to what integer inference computes.

Activations are uint8 with a fixed zero point and a learned scale; weights are int8 per output channel, symmetric, with
learned scales; the bias is rounded to int32 at scale input*weight, as the hardware holds it. Scales are exp(parameter),
so that they stay positive under any optimiser. Rounding passes gradients straight through.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PIXEL_SCALE = 1.0 / 255.0
_BIAS_LIMIT = float(2**30)
_FLOOR_SHARE = 1e-3
_SHRUNK = (1.0, 0.95, 0.9, 0.85, 0.8)


class RangeObserver(Protocol):
    """Sees the float tensor at one place while calibrating."""

    def observe(self, x: Tensor) -> None:
        """Take one batch into account."""
        ...


def straight_round(x: Tensor) -> Tensor:
    """Round half to even; gradient one."""
    return x + (x.round() - x).detach()


class ActivationQuantizer(nn.Module):
    """uint8 grid: real = scale * (code - zero_point). `pinned` grids are given by their meaning and never learned."""

    zero_point: Tensor

    def __init__(self, scale: float = 1.0, zero_point: int = 0, *, pinned: bool = False) -> None:
        super().__init__()
        value = torch.tensor(math.log(scale))
        self.log_scale = nn.Parameter(value, requires_grad=not pinned)
        self.pinned = pinned
        self.fixed = scale
        self.register_buffer("zero_point", torch.tensor(float(zero_point)))
        self.shift: nn.Parameter | None = None
        self.observer: RangeObserver | None = None
        self.enabled = True

    @property
    def scale(self) -> Tensor:
        """The positive scale as a tensor."""
        if self.pinned:
            return torch.tensor(self.fixed, dtype=torch.float32).to(self.log_scale)
        return self.log_scale.float().exp().to(self.log_scale.dtype)

    def set_range(self, scale: float, zero_point: int) -> None:
        """Adopt a calibrated grid."""
        if self.pinned:
            raise ValueError("a pinned grid cannot be changed")
        if not (scale > 0.0 and math.isfinite(scale) and 0 <= zero_point <= 255):
            raise ValueError(f"scale {scale} must be positive and finite, zero point {zero_point} in 0..255")
        with torch.no_grad():
            self.log_scale.fill_(math.log(scale))
            self.zero_point.fill_(float(zero_point))

    def learn_zero_point(self) -> None:
        """Let training move the zero point (LSQ+) until `settle_zero_point`; not of pinned grids."""
        if not self.pinned and self.shift is None:
            self.shift = nn.Parameter(torch.zeros_like(self.zero_point))

    def settle_zero_point(self) -> None:
        """Keep the whole number that was learned."""
        if self.shift is not None:
            self.zero_point.copy_(self._zero().detach())
            self.shift = None

    def _zero(self) -> Tensor:
        if self.shift is None:
            return self.zero_point
        return straight_round(self.zero_point + self.shift).clamp(0.0, 255.0)

    def forward(self, x: Tensor) -> Tensor:
        """Nearest representable value of x."""
        if self.observer is not None:
            self.observer.observe(x.detach())
        if not self.enabled:
            return x
        scale = self.scale
        zero = self._zero()
        code = straight_round((x if x.dtype is torch.float64 else x.float()) / scale) + zero
        return (code.clamp(0.0, 255.0) - zero) * scale


class QuantConv2d(nn.Module):
    """A convolution whose weights and bias are rounded to what the device stores."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert conv.bias is not None
        self.stride, self.padding = conv.stride[0], int(conv.padding[0])
        self.weight = nn.Parameter(conv.weight.detach().clone())
        self.bias = nn.Parameter(conv.bias.detach().clone())
        self.log_scale = nn.Parameter(self._initial_scale().log())
        self.enabled = True

    def weight_scale(self, input_scale: Tensor) -> Tensor:
        """[out] positive scales, floored so that a dead channel's bias still fits int32."""
        log_scale = self.log_scale.float()
        floor = torch.maximum(
            self.bias.detach().float().abs() / (input_scale.detach().float() * _BIAS_LIMIT),
            log_scale.detach().exp().max() * _FLOOR_SHARE,
        )
        return torch.maximum(log_scale.exp(), floor).to(self.log_scale.dtype)

    def weight_codes(self, input_scale: Tensor) -> Tensor:
        """int8 codes as floats with straight-through gradients, [out, in, k, k]."""
        scale = self.weight_scale(input_scale).float().view(-1, 1, 1, 1)
        return straight_round((self.weight.float() / scale).clamp(-127.0, 127.0)).to(self.weight.dtype)

    def bias_codes(self, input_scale: Tensor) -> Tensor:
        """int32 codes as floats, [out]."""
        scale = input_scale.float() * self.weight_scale(input_scale).float()
        return straight_round(self.bias.float() / scale).to(self.bias.dtype)

    def forward(self, x: Tensor, input_scale: Tensor) -> Tensor:
        """Convolution of x, which lies on a grid of `input_scale`.

        `flows.quant.networks` uses `accumulated` instead where the result has to be the device's.
        """
        if not self.enabled:
            return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        scale = self.weight_scale(input_scale)
        weight = self.weight_codes(input_scale) * scale.view(-1, 1, 1, 1)
        bias = self.bias_codes(input_scale) * (input_scale * scale)
        return F.conv2d(x, weight, bias, self.stride, self.padding)

    def accumulated(self, x: Tensor, input_scale: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over integer codes [n, out, h, w], which float32 holds exactly up to 2^24, and their scales [out]."""
        codes = (x / input_scale).round()
        total = F.conv2d(codes, self.weight_codes(input_scale), None, self.stride, self.padding)
        total = total + self.bias_codes(input_scale).view(1, -1, 1, 1)
        return total, input_scale.float() * self.weight_scale(input_scale).float()

    def refit(self) -> None:
        """Take the scale of each channel, full range or up to a fifth less, that rounds its weights best."""
        weight = self.weight.detach().float().flatten(1)
        full = self._initial_scale()
        scales = full[:, None] * torch.tensor(_SHRUNK)
        codes = (weight[:, None] / scales[..., None]).round().clamp(-127.0, 127.0)
        errors = (codes * scales[..., None] - weight[:, None]).square().sum(dim=2)
        with torch.no_grad():
            self.log_scale.copy_(scales.gather(1, errors.argmin(dim=1, keepdim=True)).flatten().log())

    def _initial_scale(self) -> Tensor:
        peak = self.weight.detach().abs().amax(dim=(1, 2, 3)) / 127.0
        return torch.maximum(peak, peak.max() * _FLOOR_SHARE).clamp_min(1e-8)


def set_enabled(module: nn.Module, *, activations: bool, weights: bool) -> None:
    """Switch the two kinds of fake quantisation on or off in a whole network."""
    for child in module.modules():
        if isinstance(child, ActivationQuantizer):
            child.enabled = activations
        elif isinstance(child, QuantConv2d):
            child.enabled = weights
