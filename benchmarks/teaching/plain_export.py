"""QDQ ONNX of the plain network, so that the emulated device can say how long it takes.

Ranges are minima and maxima on the given frames; input, residual and output lie on the pixel grid. Quality after
quantisation is the matter of `edgeloop bench qat`; times depend on shapes only.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.teaching.plain import PlainNet
from flows.quant.qdq import ConvCodes, Edge, Encoding, QdqWriter

_PIXEL, _RESIDUAL = Encoding(np.float32(1 / 255), 0), Encoding(np.float32(1 / 255), 128)


def exported(net: PlainNet, frames: Tensor) -> bytes:
    """The model, free in height and width; `frames` [n, 3, h, w] in 0..1 give the ranges."""
    writer = QdqWriter("plain_x2")
    pixels = edge = writer.quantize("x", _PIXEL, "x_dq")
    y = frames
    with torch.inference_mode():
        for index, conv in enumerate(net.convs):
            assert isinstance(conv, nn.Conv2d)
            linear = writer.conv(f"conv{index}", edge, _codes(conv, edge.encoding))
            if index == net.layers - 1:
                edge = writer.quantize(linear, _RESIDUAL)
                break
            y = F.relu(conv(y))
            scale = Encoding(np.float32(max(float(y.max()), 1e-3) / 255), 0)
            edge = writer.quantize(writer.node("Relu", [linear], f"conv{index}_relu"), scale)
    return _finished(writer, pixels, edge)


def _finished(writer: QdqWriter, pixels: Edge, residual: Edge) -> bytes:
    image = writer.node("DepthToSpace", [residual.name], "d2s", blocksize=2, mode="CRD")
    shuffled = writer.quantize(image, residual.encoding)
    scales = writer.constant("anchor_scales", np.array([1, 1, 2, 2], np.float32))
    nearest = writer.node(
        "Resize", [pixels.name, "", scales], "anchor", mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    enlarged = writer.quantize(nearest, pixels.encoding)
    total = writer.node("Add", [shuffled.name, enlarged.name], "sum")
    writer.output(writer.quantize(total, _PIXEL, "y"), [1, 3, "height2", "width2"])
    return writer.finish([1, 3, "height", "width"], {})


def _codes(conv: nn.Conv2d, source: Encoding) -> ConvCodes:
    weight = conv.weight.detach().numpy()
    scale = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / 127, 1e-6).astype(np.float32)
    codes = np.clip(np.rint(weight / scale[:, None, None, None]), -127, 127).astype(np.int8)
    assert conv.bias is not None
    bias = np.rint(conv.bias.detach().numpy() / (source.scale * scale)).astype(np.int32)
    return ConvCodes(codes, scale, bias, 1, 1)
