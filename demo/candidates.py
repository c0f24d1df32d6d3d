"""The second act's broken candidate, made by people who mean well.

Its first activation range is eight times too wide, exported consistently, so that only its pictures tell. (The other
candidate of the second act is the production model built anew: exact in the lab, but an older driver that one device
class gets in the field chokes on that build.)
"""

from __future__ import annotations

import math

import numpy as np
import torch

from flows.data.pairs import PairSet
from flows.quant.calibrate import calibrate
from flows.quant.export import export_vsr
from flows.quant.networks import QuantVsrNet
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings, mixed_batch

WIDENING = 8.0


def broken_calibration(net: VsrNet, normal: PairSet) -> bytes:
    """INT8 model of `net` whose first activation range is eight times too wide."""
    network = QuantVsrNet(net)
    random = np.random.default_rng(0)
    calibrate(network, [mixed_batch(normal, None, TrainSettings(), random)[0] for _ in range(8)])
    with torch.no_grad():
        network.head_grid.log_scale.add_(math.log(WIDENING))
    return export_vsr(network.eval())
