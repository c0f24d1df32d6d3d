"""Golden interpreter: the arithmetic of ``docs/reference/arithmetic.md`` per IR operator, plain NumPy int64.

It runs the graph at any stage of compilation, so a differential test can prove that a pass changed no result.
It is written apart from the emulated device and shares no computing code with it. Slow and literal on
purpose.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.ir import Add, Block, Clamp, Clip, Conv, Graph, Move, Operator, Value, View
from contracts.npu import Layout

Image = npt.NDArray[np.uint8]


def run(graph: Graph, frame: Image) -> dict[str, Image]:
    """Outputs by ONNX name for one uint8 H x W x C frame."""
    if frame.shape != graph.values[graph.input].shape or frame.dtype != np.uint8:
        raise ValueError(f"frame {frame.shape} {frame.dtype}, expected {graph.values[graph.input].shape} uint8")
    images = {graph.input: frame}
    for operator in graph.operators:
        _execute(graph, operator, images)
    return {name: images[value] for name, value in graph.outputs}


def _execute(graph: Graph, operator: Operator, images: dict[str, Image]) -> None:
    if isinstance(operator, Block):
        for conv in operator.body:
            _execute(graph, conv, images)
    elif isinstance(operator, Conv):
        images[operator.result] = _conv(graph, operator, images)
    elif isinstance(operator, Add):
        a = seen(images[operator.a], operator.a_view)
        b = seen(images[operator.b], operator.b_view)
        qa, qb = graph.values[operator.a], graph.values[operator.b]
        images[operator.result] = add(a, b, qa, qb, graph.values[operator.result], operator.clamp)
    elif isinstance(operator, Move):
        images[operator.result] = laid(seen(images[operator.source], operator.read), operator.write)
    elif isinstance(operator, Clip):
        images[operator.result] = np.clip(images[operator.source], operator.clamp.low, operator.clamp.high)


def _conv(graph: Graph, conv: Conv, images: dict[str, Image]) -> Image:
    source = graph.values[conv.source]
    accumulator = convolve(seen(images[conv.source], conv.read), conv, source.zero_point)
    y = requantize(accumulator, multiplier(conv, source), conv.zero_point, conv.clamp)
    image = laid(y, conv.write)
    if conv.residual is None:
        return image
    residual = graph.values[conv.residual.value]
    rows, cols, channels = image.shape
    own = Value(conv.name, rows, cols, channels, conv.scale, conv.zero_point)
    other = seen(images[conv.residual.value], conv.residual.view)
    return add(image, other, own, residual, graph.values[conv.result], conv.residual.clamp)


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
