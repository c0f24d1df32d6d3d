"""Rounding of weights by what it does to a layer's output, not to the weight: AdaRound's objective before QAT.

Source: M. Nagel et al., "Up or down? Adaptive rounding for post-training quantization", 2020, arXiv 2004.10568. The
objective is the paper's: each weight goes up or down so that the layer's output error on real inputs is least. On
layers this small it is minimised by flipping one weight at a time while that helps, which needs no relaxation and no
step size, repeats exactly, and is never worse than rounding to nearest, where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.quant.lsq import QuantConv2d

_FLIPS = 4_000
_PATCHES = 2_048


@dataclass(frozen=True)
class Rounding:
    """What one layer gained: mean squared output error when rounding to nearest, and now; weights that differ."""

    layer: str
    nearest: float
    chosen: float
    flipped: int


class _Gram:
    """Second moments of a layer's inputs, gathered batch by batch: [fan, fan]."""

    def __init__(self, conv: QuantConv2d) -> None:
        fan = conv.weight[0].numel()
        self.moments = torch.zeros(fan, fan, dtype=torch.float64)
        self.scale = torch.ones(())
        self.count = 0

    def __call__(self, conv: nn.Module, given: tuple[Tensor, Tensor]) -> None:
        assert isinstance(conv, QuantConv2d)
        x, self.scale = given[0].detach(), given[1].detach()
        patches = F.unfold(x.float(), conv.weight.shape[2:], stride=conv.stride, padding=conv.padding)
        rows = patches.transpose(1, 2).reshape(-1, patches.shape[1])
        rows = rows[:: max(1, len(rows) // _PATCHES)].double()
        self.moments += rows.T @ rows
        self.count += len(rows)


def adaround(network: nn.Module, batches: Iterable[Tensor]) -> tuple[Rounding, ...]:
    """Choose the rounding of every convolution of a calibrated network, in place, and put its weights onto the grid.

    Inputs of a layer are those of the quantised network, so earlier rounding errors are taken into account.
    """
    convs = {name: module for name, module in network.named_modules() if isinstance(module, QuantConv2d)}
    grams = {name: _Gram(conv) for name, conv in convs.items()}
    hooks = [conv.register_forward_pre_hook(grams[name]) for name, conv in convs.items()]
    was_training = network.training
    network.train()
    try:
        with torch.no_grad():
            for batch in batches:
                network(batch)
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)
    if not all(gram.count for gram in grams.values()):
        raise ValueError("a layer was never reached; give at least one batch")
    return tuple(_round(name, conv, grams[name]) for name, conv in convs.items())


def _round(name: str, conv: QuantConv2d, gram: _Gram) -> Rounding:
    with torch.no_grad():
        scale = conv.weight_scale(gram.scale).double().view(-1, 1)
        wished = (conv.weight.double().flatten(1) / scale).clamp(-127.0, 127.0)
        nearest = conv.weight_codes(gram.scale).double().flatten(1)
        codes = choose_codes(wished, nearest, gram.moments / gram.count)
        conv.weight.copy_((codes * scale).view_as(conv.weight))
        before, after = (
            float((_errors(given - wished, gram.moments / gram.count) * scale.square().flatten()).mean())
            for given in (nearest, codes)
        )
    return Rounding(name, before, after, int((codes != nearest).sum()))


def choose_codes(wished: Tensor, nearest: Tensor, moments: Tensor) -> Tensor:
    """Integer codes [out, fan] next to `wished`, from `nearest` on, flipping what helps a channel most."""
    codes = nearest.clone()
    other = torch.where(nearest > wished, nearest - 1.0, nearest + 1.0).clamp(-127.0, 127.0)
    error = codes - wished
    slope = error @ moments
    diagonal, rows = moments.diagonal(), torch.arange(len(codes))
    for _ in range(_FLIPS):
        step = other - codes
        change = 2.0 * step * slope + step.square() * diagonal
        best = change.argmin(dim=1)
        helps = change[rows, best] < -1e-12
        if not bool(helps.any()):
            break
        at, column = rows[helps], best[helps]
        moved = step[at, column]
        codes[at, column], other[at, column] = other[at, column].clone(), codes[at, column].clone()
        slope[at] += moved[:, None] * moments[column]
    return codes


def _errors(error: Tensor, moments: Tensor) -> Tensor:
    return ((error @ moments) * error).sum(dim=1)
