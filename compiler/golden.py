"""Golden interpreter: the arithmetic of ``docs/reference/arithmetic.md`` per IR operator, plain NumPy int64.

It runs the graph at any stage of compilation, so a differential test can prove that a pass changed no result.
It is written apart from the emulated device and shares no computing code with it. Slow and literal on
purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler import golden_host, golden_vector
from compiler.ir import (
    Add,
    Block,
    Clamp,
    Clip,
    Conv,
    Graph,
    Host,
    Join,
    Move,
    Mul,
    Operator,
    Pad,
    Part,
    Permute,
    Pool,
    Resize,
    Simple,
    Table,
    Value,
    View,
)
from contracts.npu import Layout

Image = npt.NDArray[np.uint8]


def run(graph: Graph, frame: Image, states: Mapping[str, Image] | None = None) -> dict[str, Image]:
    """Outputs by ONNX name for one uint8 H x W x C frame. ``states`` by ONNX input name;
    those that are missing are as before the first frame.
    """
    if frame.shape != graph.values[graph.input].shape or frame.dtype != np.uint8:
        raise ValueError(f"frame {frame.shape} {frame.dtype}, expected {graph.values[graph.input].shape} uint8")
    images = {graph.input: frame}
    for state in graph.states:
        value = graph.values[state.value]
        kept = states.get(state.name) if states is not None else None
        images[state.value] = np.full(value.shape, value.zero_point, np.uint8) if kept is None else kept
    for operator in graph.operators:
        _execute(graph, operator, images)
    return {name: images[value] for name, value in graph.outputs}


def _execute(graph: Graph, operator: Operator, images: dict[str, Image]) -> None:
    for step in operator.body if isinstance(operator, Block) else (operator,):
        images[step.result] = evaluate(graph, step, images)


def evaluate(graph: Graph, step: Simple, images: Mapping[str, Image]) -> Image:
    """The result of one operator from the images that it reads."""
    if isinstance(step, Conv):
        return _conv(graph, step, images)
    if isinstance(step, Add):
        a, b = seen(images[step.a], step.a_view), seen(images[step.b], step.b_view)
        qa, qb = graph.values[step.a], graph.values[step.b]
        return add(a, b, qa, mirrored(qb) if step.subtract else qb, graph.values[step.result], step.clamp)
    if isinstance(step, Move):
        return laid(seen(images[step.source], step.read), step.write)
    if isinstance(step, Clip):
        return np.clip(images[step.source], step.clamp.low, step.clamp.high)
    return _vector(graph, step, images)


def _vector(
    graph: Graph, step: Table | Mul | Pool | Resize | Pad | Permute | Join | Part | Host, images: Mapping[str, Image]
) -> Image:
    values, result = graph.values, graph.values[step.result]
    if isinstance(step, Table):
        return golden_vector.look_up(images[step.source], step.tables)
    if isinstance(step, Mul):
        return golden_vector.multiply(images[step.a], images[step.b], values[step.a], values[step.b], result, step)
    if isinstance(step, Pool):
        return golden_vector.pool(images[step.source], step, values[step.source], result)
    if isinstance(step, Resize):
        return golden_vector.resize(images[step.source], step, result)
    if isinstance(step, Host):
        operand = (images[step.b], values[step.b]) if step.b else None
        return golden_host.execute(step, (images[step.a], values[step.a]), operand, result)
    return _rearranged(graph, step, images)


def _rearranged(graph: Graph, step: Pad | Permute | Join | Part, images: Mapping[str, Image]) -> Image:
    if isinstance(step, Pad):
        top, bottom, left, right = step.pads
        fill = graph.values[step.source].zero_point
        return np.pad(images[step.source], ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    if isinstance(step, Permute):
        return np.ascontiguousarray(images[step.source][:, :, list(step.order)])
    if isinstance(step, Part):
        return np.ascontiguousarray(images[step.source][_window(graph.values[step.result])])
    whole = np.zeros(graph.values[step.result].shape, np.uint8)
    for source in step.sources:
        whole[_window(graph.values[source])] = images[source]
    return whole


def _window(value: Value) -> tuple[slice, slice, slice]:
    assert value.window is not None
    first = (value.window.row, value.window.col, value.window.channel)
    rows, cols, channels = (slice(at, at + extent) for at, extent in zip(first, value.shape, strict=True))
    return rows, cols, channels


def mirrored(value: Value) -> Value:
    """The operand of a subtraction: the scale negative."""
    return replace(value, scale=-value.scale)


def _conv(graph: Graph, conv: Conv, images: Mapping[str, Image]) -> Image:
    source = graph.values[conv.source]
    accumulator = convolve(seen(images[conv.source], conv.read), conv, source.zero_point)
    y = requantize(accumulator, multiplier(conv, source), conv.zero_point, conv.clamp)
    image = laid(y, conv.write)
    if conv.residual is None:
        return image
    residual, result = conv.residual, graph.values[conv.result]
    rows, cols, channels = image.shape
    own = Value(conv.name, rows, cols, channels, conv.scale, conv.zero_point)
    a, b = (image, own), (seen(images[residual.value], residual.view), graph.values[residual.value])
    if residual.first:
        a, b = b, a
    return add(a[0], b[0], a[1], mirrored(b[1]) if residual.subtract else b[1], result, residual.clamp)


def multiplier(conv: Conv, source: Value) -> npt.NDArray[np.float32]:
    """float32(float32(xs * ws) / ys) for each output channel."""
    product = np.float32(source.scale) * conv.weight_scale
    return np.asarray(product / np.float32(conv.scale), np.float32)


def convolve(image: Image, conv: Conv, zero_point: int) -> npt.NDArray[np.int64]:
    """Exact accumulators [rows][cols][out], bias included."""
    top, bottom, left, right = conv.pads
    padded = np.pad(image.astype(np.int64) - zero_point, ((top, bottom), (left, right), (0, 0)))
    weights = conv.weights.astype(np.int64) - conv.weight_zero_point.astype(np.int64)[:, None, None, None]
    outputs, depth, height, width = weights.shape
    rows = (padded.shape[0] - conv.dilations[0] * (height - 1) - 1) // conv.strides[0] + 1
    cols = (padded.shape[1] - conv.dilations[1] * (width - 1) - 1) // conv.strides[1] + 1
    result = np.zeros((rows, cols, outputs), np.int64) + conv.bias.astype(np.int64)
    share = outputs // conv.groups
    for ky in range(height):
        for kx in range(width):
            y, x = ky * conv.dilations[0], kx * conv.dilations[1]
            last_y, last_x = y + (rows - 1) * conv.strides[0] + 1, x + (cols - 1) * conv.strides[1] + 1
            window = padded[y : last_y : conv.strides[0], x : last_x : conv.strides[1]]
            for group in range(conv.groups):
                inputs = window[:, :, group * depth : (group + 1) * depth]
                kernel = weights[group * share : (group + 1) * share, :, ky, kx]
                result[:, :, group * share : (group + 1) * share] += inputs @ kernel.T
    return result


def requantize(
    accumulator: npt.NDArray[np.int64], multipliers: npt.NDArray[np.float32], zero_point: int, clamp: Clamp
) -> Image:
    """Step 4 of the convolution."""
    scaled = np.rint(accumulator.astype(np.float32) * multipliers)
    shifted = scaled.astype(np.float64) + zero_point
    return np.asarray(np.clip(shifted, clamp.low, clamp.high), np.uint8)


def add(a: Image, b: Image, qa: Value, qb: Value, qc: Value, clamp: Clamp) -> Image:
    """The addition, fused multiply-add spelled out in float64 (exact within the allowed ratios)."""
    ra = np.float32(qa.scale) / np.float32(qc.scale)
    rb = np.float32(qb.scale) / np.float32(qc.scale)
    offset = _fma(np.float32(qa.zero_point), ra, np.float32(rb * np.float32(qb.zero_point)))
    fixed = np.float32(np.float32(qc.zero_point) - offset)
    inner = _fma(b.astype(np.float32), rb, fixed)
    total = _fma(a.astype(np.float32), ra, inner)
    return np.asarray(np.clip(np.rint(total), clamp.low, clamp.high), np.uint8)


def _fma(
    a: npt.NDArray[np.float32] | np.float32, b: np.float32, c: npt.NDArray[np.float32] | np.float32
) -> npt.NDArray[np.float32]:
    return np.asarray(np.float64(a) * np.float64(b) + np.float64(c), np.float32)


def seen(image: Image, view: View) -> Image:
    """The logical tensor behind a stored image."""
    block = view.block
    if view.layout == Layout.S2D:
        rows, cols, channels = image.shape[0] // block, image.shape[1] // block, image.shape[2]
        tiles = image.reshape(rows, block, cols, block, channels)
        return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3, 4)).reshape(rows, cols, block * block * channels)
    if view.layout == Layout.NEAREST:
        return np.asarray(image.repeat(block, axis=0).repeat(block, axis=1))
    return image


def laid(image: Image, view: View) -> Image:
    """The stored image of a logical tensor."""
    if view.layout != Layout.D2S:
        return image
    block = view.block
    rows, cols, channels = image.shape[0], image.shape[1], image.shape[2] // block**2
    tiles = image.reshape(rows, cols, channels, block, block).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(tiles).reshape(rows * block, cols * block, channels)
