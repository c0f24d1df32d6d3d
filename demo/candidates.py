"""The second act's two candidates, made by people who mean well.

One has a broken calibration: an activation range eight times too wide, exported consistently, so that only its
pictures tell. The other is the new production model under an experimental kernel set: exact in the lab, but the
older driver of one device class chokes on it in the field.
"""

from __future__ import annotations

import onnx
import torch

from demo.actors import ODD_KERNEL
from flows.data.pairs import PairSet
from flows.quant.export import export_vsr
from flows.quant.qat import qat
from flows.tasks.vsr.net import VsrNet

WIDENING = 8.0


def broken_calibration(net: VsrNet, normal: PairSet) -> bytes:
    """INT8 model of `net` whose first activation range is eight times too wide."""
    network = qat(net, normal, None, None).network
    with torch.no_grad():
        grid = network.head_grid
        grid.log_scale.add_(float(torch.log(torch.tensor(WIDENING))))
    return export_vsr(network)


def experimental_kernels(model: bytes) -> bytes:
    """The same network with other kernel names; results are the same to the last bit."""
    graph = onnx.load_from_string(model)
    for node in graph.graph.node:
        node.name = f"{ODD_KERNEL}_{node.name or node.output[0]}"
    data: bytes = graph.SerializeToString(deterministic=True)
    return data
