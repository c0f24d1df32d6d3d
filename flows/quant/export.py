"""Exact export of the quantised networks to QDQ ONNX, and the proof that ONNX Runtime agrees with them.

The numbers written are the numbers trained with: no scale is computed a second time. `agreement` runs an export at
both ends of ONNX Runtime's optimisation and counts pixels that differ from the fake-quantised network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn

from flows.data.clips import Frames
from flows.errors import FlowError
from flows.inference import Stream, cpu_session
from flows.quant.lsq import ActivationQuantizer, QuantConv2d
from flows.quant.networks import QuantBlock, QuantHistory, QuantQualityNet, QuantVsrNet
from flows.quant.qdq import ConvCodes, Edge, Encoding, QdqWriter
from flows.tasks.vsr.architecture import SCALE
from flows.tasks.vsr.history import Player

MAX_LSB = 1
MAX_SHARE = 1e-3
MAX_FLOAT_SHARE = 2e-2


class ExportError(FlowError):
    """The exported model does not compute what was trained."""


@dataclass(frozen=True)
class Agreement:
    """Largest difference in output steps and the share of values that differ, network against ONNX Runtime.

    `max_lsb` and `share` are against its integer operators, which is what devices compute. `float_lsb` and
    `float_share` are against its unfused float graph, which differs from its own integer operators on rounding ties.
    """

    max_lsb: int
    share: float
    float_lsb: int = 0
    float_share: float = 0.0

    @property
    def ok(self) -> bool:
        """Within one step, rarely."""
        return self.max_lsb <= MAX_LSB and self.share <= MAX_SHARE and self.float_share <= MAX_FLOAT_SHARE


def export_vsr(network: QuantVsrNet) -> bytes:
    """QDQ ONNX of a quantised x2 network; input x [1, 3, h, w], output y [1, 3, 2h, 2w], sides even."""
    writer = QdqWriter("edgeloop_vsr_x2")
    pixels = writer.quantize("x", encoding(network.input_grid), "x_dq")
    architecture, edge = network.architecture, pixels
    if architecture.packing > 1:
        packed = writer.node("SpaceToDepth", [pixels.name], "s2d", blocksize=architecture.packing)
        edge = writer.quantize(packed, pixels.encoding)
    edge = conv_relu(writer, "head", edge, network.head, network.head_grid)
    if network.history is not None:
        edge = _joined(writer, edge, network.history)
    for index, block in enumerate(network.blocks):
        assert isinstance(block, QuantBlock)
        edge = residual_block(writer, f"block{index}", edge, block)
    last = edge
    residual = writer.quantize(
        writer.conv("tail", edge, conv_codes(network.tail, edge.encoding)), encoding(network.tail_grid)
    )
    image = writer.node("DepthToSpace", [residual.name], "d2s", blocksize=architecture.spreading, mode="CRD")
    shuffled = writer.quantize(image, residual.encoding)
    scales = writer.constant("anchor_scales", np.array([1, 1, SCALE, SCALE], np.float32))
    nearest = writer.node(
        "Resize",
        [pixels.name, "", scales],
        "anchor",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    enlarged = writer.quantize(nearest, pixels.encoding)
    total = writer.node("Add", [shuffled.name, enlarged.name], "sum")
    writer.output(writer.quantize(total, encoding(network.output_grid), "y"), [1, 3, "height2", "width2"])
    states: dict[str, list[int | str]] = {}
    if network.history is not None:
        left = conv_relu(writer, "keep", last, network.history.keep, network.history.kept_grid, "history_next")
        writer.output(left, [1, architecture.history, "rows", "columns"])
        states = {"history": [1, architecture.history, "height/2", "width/2"]}
    return writer.finish([1, 3, "height", "width"], {"architecture": architecture.to_json()}, states)


def export_quality(network: QuantQualityNet) -> bytes:
    """QDQ ONNX of a quantised quality net; outputs "features" and "embedding"."""
    writer = QdqWriter("edgeloop_quality")
    edge = writer.quantize("x", encoding(network.input_grid), "x_dq")
    for index, (conv, grid) in enumerate(zip(network.convs, network.grids, strict=True)):
        assert isinstance(conv, QuantConv2d)
        assert isinstance(grid, ActivationQuantizer)
        last = index == len(network.convs) - 1
        edge = conv_relu(writer, f"conv{index}", edge, conv, grid, "features" if last else None)
    writer.output(edge, [1, "channels", "rows", "columns"])
    embedding = conv_relu(writer, "embed", edge, network.embed, network.embed_grid, "embedding")
    writer.output(embedding, [1, "dimensions", "rows", "columns"])
    return writer.finish([1, 3, "height", "width"], {})


def agreement(network: nn.Module, model: bytes, frames: Frames, scale: float = 1.0 / 255.0) -> Agreement:
    """Compare the first output of `network` (set to evaluation) and of `model`, at both optimisation levels.

    A shift of one or two steps is added to each value, because on a flat area a single rounding tie counts for every
    pixel.
    """
    network.eval()
    images = [
        np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32) / np.float32(255.0)
        for image in _dither(frames)
    ]
    play = Player(network)
    with torch.inference_mode():
        expected = [np.rint(_first(play(torch.from_numpy(x))) / scale) for x in images]
    found: list[tuple[int, float]] = []
    for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
        stream = Stream(cpu_session(model, level))
        outputs = [np.rint(stream.next(x) / scale) for x in images]
        steps = np.concatenate([np.abs(a - b).ravel() for a, b in zip(outputs, expected, strict=True)])
        found.append((int(steps.max()), float((steps > 0).mean())))
    return Agreement(*found[0], *found[1])


def _first(outputs: Tensor | tuple[Tensor, ...]) -> np.ndarray:
    return (outputs if isinstance(outputs, Tensor) else outputs[0]).numpy()


def _dither(frames: Frames) -> Frames:
    noise = np.random.default_rng(0).integers(-2, 3, frames.shape)
    return np.asarray(np.clip(frames.astype(np.int16) + noise, 0, 255), dtype=np.uint8)


def proven_vsr(network: QuantVsrNet, frames: Frames) -> tuple[bytes, Agreement]:
    """Export an x2 network and prove it; raises ExportError when ONNX Runtime disagrees."""
    return proven(network, export_vsr(network), frames)


def proven(network: nn.Module, model: bytes, frames: Frames) -> tuple[bytes, Agreement]:
    """The export and how exactly it computes what `network` does; raises ExportError when it does not."""
    found = agreement(network, model, frames)
    if not found.ok:
        raise ExportError(
            f"export differs by {found.max_lsb} LSB on {found.share:.3%} of values "
            f"({found.float_share:.3%} in floats), "
            f"limit {MAX_LSB} LSB on {MAX_SHARE:.1%}; check that scales are finite and no channel is dead"
        )
    return model, found


def encoding(grid: ActivationQuantizer) -> Encoding:
    """The grid's numbers as stored. Raises ExportError when they are no grid."""
    scale, zero = np.float32(grid.scale.detach().numpy()), float(grid.zero_point)
    if not (np.isfinite(scale) and scale > 0.0 and zero == round(zero) and 0.0 <= zero <= 255.0):
        raise ExportError(f"a tensor's grid has scale {scale} and zero point {zero}; calibrate again")
    return Encoding(scale, int(zero))


def conv_codes(conv: QuantConv2d, source: Encoding) -> ConvCodes:
    """Integer weights and bias for an input on grid `source`. Raises ExportError when one of them is not finite."""
    scale = torch.tensor(float(source.scale))
    with torch.no_grad():
        weights, scales, bias = conv.weight_codes(scale), conv.weight_scale(scale), conv.bias_codes(scale)
    if not all(bool(torch.isfinite(values).all()) for values in (weights, scales, bias)):
        raise ExportError("a weight, scale or bias is not finite; train again from a checkpoint that is")
    return ConvCodes(weights.numpy(), scales.numpy(), bias.numpy(), conv.stride, conv.padding)


def conv_relu(
    writer: QdqWriter, name: str, source: Edge, conv: QuantConv2d, grid: ActivationQuantizer, output: str | None = None
) -> Edge:
    """Write a convolution and its ReLU from `source` onto `grid`; the result is named `output` when that is given."""
    linear = writer.conv(name, source, conv_codes(conv, source.encoding))
    return writer.quantize(writer.node("Relu", [linear], f"{name}_relu"), encoding(grid), output)


def _joined(writer: QdqWriter, source: Edge, history: QuantHistory) -> Edge:
    kept = writer.quantize("history", encoding(history.kept_grid), "history_dq")
    linear = writer.conv("join", kept, conv_codes(history.join, kept.encoding))
    branch = writer.quantize(linear, encoding(history.branch_grid))
    total = writer.node("Add", [branch.name, source.name], "join_sum")
    return writer.quantize(total, encoding(history.sum_grid))


def residual_block(writer: QdqWriter, name: str, source: Edge, block: QuantBlock) -> Edge:
    """Write a residual block from `source` onto its own grid of sums."""
    middle = conv_relu(writer, f"{name}_expand", source, block.expand, block.mid_grid)
    linear = writer.conv(f"{name}_project", middle, conv_codes(block.project, middle.encoding))
    branch = writer.quantize(linear, encoding(block.branch_grid))
    # A convolution's result first: drivers before 1.3.0 fuse this order only (it decides rounding ties).
    total = writer.node("Add", [branch.name, source.name], f"{name}_sum")
    if block.rectified:
        total = writer.node("Relu", [total], f"{name}_relu")
    return writer.quantize(total, encoding(block.sum_grid))
