"""QDQ ONNX of a trained net: ranges from training frames, weights int8 per channel, the history as a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from benchmarks.recurrence.clips import Scene
from benchmarks.recurrence.net import RecurrentNet
from benchmarks.recurrence.training import tensor
from flows.quant.qdq import ConvCodes, Edge, Encoding, QdqWriter

CALIBRATED = 8
TAIL_SHARE = 1e-5
PIXEL = Encoding(np.float32(1 / 255), 0)


def exported(net: RecurrentNet, material: Sequence[Scene]) -> bytes:
    """The model; inputs x and history, outputs y and history_next."""
    grids = encodings(net, material)
    writer = QdqWriter("recurrent_x2")
    pixels = writer.quantize("x", PIXEL, "x_dq")
    kept = writer.quantize("history", grids["history"], "history_dq")
    features = _relu(writer, "features", pixels, net.features, grids["features"])
    same = writer.quantize(features.name, grids["history"], "features_joined")
    joined = writer.quantize(writer.node("Concat", [same.name, kept.name], "joined", axis=1), grids["history"])
    trunk = _relu(writer, "join", joined, net.join, grids["trunk"])
    inner = _relu(writer, "expand", trunk, net.expand, grids["inner"])
    branch = writer.quantize(writer.conv("project", inner, _codes(net.project, inner.encoding)), grids["branch"])
    total = writer.quantize(writer.node("Add", [branch.name, trunk.name], "total"), grids["total"])
    tail = writer.quantize(writer.conv("tail", total, _codes(net.tail, total.encoding)), grids["tail"])
    shuffled = writer.quantize(
        writer.node("DepthToSpace", [tail.name], "shuffled", blocksize=2, mode="CRD"), grids["tail"]
    )
    scales = writer.constant("scales", np.array([1, 1, 2, 2], np.float32))
    nearest = writer.node(
        "Resize", [pixels.name, "", scales], "nearest", mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    enlarged = writer.quantize(nearest, PIXEL)
    image = writer.node("Add", [shuffled.name, enlarged.name], "image")
    writer.output(writer.quantize(image, PIXEL, "y"), [1, 3, "h2", "w2"])
    left = writer.node("Relu", [writer.conv("keep", total, _codes(net.keep, total.encoding))], "keep_relu")
    writer.output(writer.quantize(left, grids["history"], "history_next"), [1, "kept", "a", "b"])
    return writer.finish([1, 3, "h", "w"], {}, states={"history": [1, net.keep.out_channels, "h/1", "w/1"]})


def encodings(net: RecurrentNet, material: Sequence[Scene]) -> dict[str, Encoding]:
    """A grid for every activation, from a few frames of every training scene. What is joined shares the history's."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    with torch.inference_mode():
        for scene in material:
            kept = net.first(tensor(scene.lr[:1]))
            for frame in scene.lr[:CALIBRATED]:
                _, left, seen = net.traced(tensor(frame[None]), kept)
                kept = net.handed(left)
                for name, values in seen.items():
                    ends = np.quantile(values.numpy(), (TAIL_SHARE, 1 - TAIL_SHARE))
                    low[name] = min(low.get(name, 0.0), float(ends[0]))
                    high[name] = max(high.get(name, 0.0), float(ends[1]))
    high["history"] = max(high["history"], high["features"])
    return {name: _grid(low[name], high[name]) for name in low}


def _grid(low: float, high: float) -> Encoding:
    scale = np.float32(max(high - low, 1e-3) / 255)
    return Encoding(scale, int(np.clip(round(-low / float(scale)), 0, 255)))


def _relu(writer: QdqWriter, name: str, source: Edge, conv: nn.Conv2d, grid: Encoding) -> Edge:
    linear = writer.conv(name, source, _codes(conv, source.encoding))
    return writer.quantize(writer.node("Relu", [linear], f"{name}_relu"), grid)


def _codes(conv: nn.Conv2d, source: Encoding) -> ConvCodes:
    weight = conv.weight.detach().numpy()
    scale = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / 127, 1e-8).astype(np.float32)
    codes = np.clip(np.rint(weight / scale[:, None, None, None]), -127, 127).astype(np.int8)
    assert conv.bias is not None
    bias = np.rint(conv.bias.detach().numpy() / (source.scale * scale)).astype(np.int32)
    return ConvCodes(codes, scale, bias, 1, 1)
