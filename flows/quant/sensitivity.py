"""Which layer's rounding costs most: each quantised alone, everything else in floats, on real frames.

The table is where to spend more bits, and what to look at when an INT8 model loses more than it may.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from flows.quant.lsq import ActivationQuantizer, QuantConv2d, set_enabled


class Part(StrEnum):
    """What of a layer is rounded."""

    WEIGHTS = "weights"
    ACTIVATION = "activation"


@dataclass(frozen=True)
class LayerCost:
    """One row: mean squared error against the float output (full scale 1), the same in dB, its share of all."""

    layer: str
    part: Part
    error: float
    psnr_db: float
    share: float


def layer_sensitivity(network: nn.Module, batches: Sequence[Tensor]) -> tuple[LayerCost, ...]:
    """Rows of a calibrated network, worst first. The network is left as it was, fake quantisation switched on."""
    parts = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, QuantConv2d | ActivationQuantizer)
    ]
    was_training = network.training
    network.train()  # the exact integer path would round a layer's input as well
    try:
        set_enabled(network, activations=False, weights=False)
        whole = _outputs(network, batches)
        errors = []
        for _, module in parts:
            module.enabled = True
            errors.append(_error(_outputs(network, batches), whole))
            module.enabled = False
    finally:
        set_enabled(network, activations=True, weights=True)
        network.train(was_training)
    total = sum(errors) or 1.0
    rows = [
        LayerCost(name, _part(module), error, _psnr(error), error / total)
        for (name, module), error in zip(parts, errors, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.error, row.layer)))


def as_json(rows: Sequence[LayerCost]) -> list[dict[str, object]]:
    """Rows as plain values; a layer without error has no dB."""
    return [{**asdict(row), "psnr_db": row.psnr_db if math.isfinite(row.psnr_db) else None} for row in rows]


def as_text(rows: Sequence[LayerCost]) -> str:
    """The table as Markdown."""
    head = ["| layer | rounded | output PSNR against float (dB) | share of the error |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {r.layer} | {r.part} | {r.psnr_db:.1f} | {r.share:.1%} |" for r in rows), ""])


def _outputs(network: nn.Module, batches: Sequence[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        return [network(batch) for batch in batches]


def _error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    count = sum(one.numel() for one in expected)
    return sum(float((a - b).double().square().sum()) for a, b in zip(found, expected, strict=True)) / count


def _psnr(error: float) -> float:
    return -10.0 * math.log10(error) if error > 0.0 else math.inf


def _part(module: nn.Module) -> Part:
    return Part.WEIGHTS if isinstance(module, QuantConv2d) else Part.ACTIVATION
