"""The plain net's quantised twin, by the product's own parts, and its QDQ ONNX.

Input, residual before and after PixelShuffle (zero point 128) and output lie on the pixel grid of 1/255, unless
`pinned` is off: then every grid but the input's comes from calibration, which shows what pinning is worth.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.teaching.plain import PlainNet
from flows.quant.export import conv_codes, encoding
from flows.quant.integer import added
from flows.quant.lsq import PIXEL_SCALE, ActivationQuantizer, QuantConv2d
from flows.quant.networks import exact, through
from flows.quant.qdq import Edge, Encoding, QdqWriter
from flows.tasks.vsr.architecture import SCALE
from flows.tasks.vsr.net import anchor

PIXELS = Encoding(np.float32(PIXEL_SCALE), 0)


class QuantPlainNet(nn.Module):
    """Quantised `PlainNet`; set to evaluation it is integer inference, bit for bit."""

    def __init__(self, net: PlainNet, *, pinned: bool = True) -> None:
        super().__init__()
        self.convs = nn.ModuleList(QuantConv2d(conv) for conv in net.convs if isinstance(conv, nn.Conv2d))
        self.grids = nn.ModuleList(ActivationQuantizer() for _ in self.convs[:-1])
        self.input_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)
        self.tail_grid = ActivationQuantizer(PIXEL_SCALE, 128, pinned=pinned)
        self.output_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=pinned)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB [n, 3, h, w] -> the output grid [n, 3, 2h, 2w]."""
        x = self.input_grid(x)
        y, source = x, self.input_grid
        for conv, grid in zip(self.convs[:-1], self.grids, strict=True):
            assert isinstance(conv, QuantConv2d)
            assert isinstance(grid, ActivationQuantizer)
            y, source = through(conv, y, source.scale, grid, relu=True), grid
        tail = self.convs[-1]
        assert isinstance(tail, QuantConv2d)
        image = F.pixel_shuffle(through(tail, y, source.scale, self.tail_grid), SCALE)
        if exact(tail, self.output_grid):
            return added(image, self.tail_grid, anchor(x), self.input_grid, self.output_grid)
        return torch.as_tensor(self.output_grid(image + anchor(x)))


def export_plain(network: QuantPlainNet) -> bytes:
    """QDQ ONNX; input x [1, 3, h, w], output y [1, 3, 2h, 2w]."""
    writer = QdqWriter("plain_x2")
    pixels = writer.quantize("x", encoding(network.input_grid), "x_dq")
    edge = pixels
    for index, (conv, grid) in enumerate(zip(network.convs[:-1], network.grids, strict=True)):
        assert isinstance(conv, QuantConv2d)
        assert isinstance(grid, ActivationQuantizer)
        linear = writer.conv(f"conv{index}", edge, conv_codes(conv, edge.encoding))
        edge = writer.quantize(writer.node("Relu", [linear], f"relu{index}"), encoding(grid))
    tail = network.convs[-1]
    assert isinstance(tail, QuantConv2d)
    residual = writer.quantize(writer.conv("tail", edge, conv_codes(tail, edge.encoding)), encoding(network.tail_grid))
    image = writer.node("DepthToSpace", [residual.name], "d2s", blocksize=SCALE, mode="CRD")
    shuffled = writer.quantize(image, residual.encoding)
    scales = writer.constant("anchor_scales", np.array([1, 1, SCALE, SCALE], np.float32))
    nearest = writer.node(
        "Resize", [pixels.name, "", scales], "anchor", mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    repeated = writer.quantize(nearest, pixels.encoding)
    total = writer.node("Add", [shuffled.name, repeated.name], "sum")
    writer.output(writer.quantize(total, encoding(network.output_grid), "y"), [1, 3, "height2", "width2"])
    return writer.finish([1, 3, "height", "width"], {})


def export_float(net: PlainNet) -> bytes:
    """The float net as ONNX, for quantisers that take such."""
    writer = QdqWriter("plain_x2_float")
    name = "x"
    last = len(net.convs) - 1
    for index, conv in enumerate(net.convs):
        assert isinstance(conv, nn.Conv2d)
        assert conv.bias is not None
        weight = writer.constant(f"conv{index}_weight", conv.weight.detach().contiguous().numpy())
        bias = writer.constant(f"conv{index}_bias", conv.bias.detach().numpy())
        name = writer.node(
            "Conv", [name, weight, bias], f"conv{index}", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]
        )
        if index != last:
            name = writer.node("Relu", [name], f"relu{index}")
    image = writer.node("DepthToSpace", [name], "d2s", blocksize=SCALE, mode="CRD")
    scales = writer.constant("anchor_scales", np.array([1, 1, SCALE, SCALE], np.float32))
    nearest = writer.node(
        "Resize", ["x", "", scales], "anchor", mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    writer.output(Edge(writer.node("Add", [image, nearest], "y"), PIXELS), ["n", 3, "height2", "width2"])
    return writer.finish(["n", 3, "height", "width"], {})
