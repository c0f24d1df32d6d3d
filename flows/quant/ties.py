"""Move a quantised network off a rounding tie that ONNX Runtime's float graph breaks otherwise than its integers.

One pair of codes whose sum lies within float32's precision of a tie is enough: in a channel that is nearly constant the
pair comes everywhere, and each layer spreads the step. The network is right then, and a hair's breadth away it has no
such pair: every grid is moved by its own few hundred-thousandths, and the export is proven again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flows.quant.export import Agreement, ExportError, proven
from flows.quant.lsq import ActivationQuantizer

TRIES = 4
_STEP = 2e-5
"""Relative change of the first grid's scale; the others' are multiples, so that every ratio of scales changes."""


def proven_off_ties(
    network: nn.Module, export: Callable[[nn.Module], bytes], frames: NDArray[np.uint8]
) -> tuple[bytes, Agreement]:
    """The export and how exactly it computes what `network` does; moves the network's learned grids when it has to.

    Raises ExportError when it does not agree after `TRIES` moves either.
    """
    for _ in range(TRIES):
        try:
            return proven(network, export(network), frames)
        except ExportError:
            _move(network)
    return proven(network, export(network), frames)


def _move(network: nn.Module) -> None:
    grids = [one for one in network.modules() if isinstance(one, ActivationQuantizer) and not one.pinned]
    with torch.no_grad():
        for number, grid in enumerate(grids, 1):
            grid.log_scale.add_(_STEP * number)
