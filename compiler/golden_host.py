"""Golden interpreter, host operators of ``docs/reference/arithmetic.md``: the reference implementations.

Whole numbers in int64; float64 only where the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from compiler.ir import Clamp, Host, HostFunction, Value

Image = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]
Operand = tuple[Image, Value]


def execute(step: Host, a: Operand, b: Operand | None, result: Value) -> Image:
    """One host operator."""
    return _FUNCTIONS[step.function](step, a, b or a, result)


def exponentials(scale: float) -> npt.NDArray[np.int32]:
    """The table E of the softmax: 2^30 * exp(-d * scale) for d = 0..255."""
    steps = np.arange(256, dtype=np.float64)
    return np.minimum(np.rint(2.0**30 * np.exp(-steps * np.float64(np.float32(scale)))), 2.0**30).astype(np.int32)


def _softmax(step: Host, a: Operand, _: Operand, result: Value) -> Image:
    image, source = a
    axis = (2, 0, 1)[step.axis]
    distance = image.max(axis=axis, keepdims=True).astype(np.int64) - image
    e = exponentials(source.scale)[distance].astype(np.int64)
    share = e.astype(np.float64) / e.sum(axis=axis, keepdims=True).astype(np.float64)
    return _bytes(np.rint(share / np.float64(np.float32(result.scale))) + result.zero_point, step.clamp)


def _matrix_product(step: Host, a: Operand, b: Operand, result: Value) -> Image:
    left, right = (image.astype(np.int64) - value.zero_point for image, value in (a, b))
    total = np.einsum("hkc,kpc->hpc", left, right)
    return _rescaled(total, a[1], b[1], result, step.clamp)


def _deformable_alignment(step: Host, a: Operand, b: Operand, result: Value) -> Image:
    conv = step.convolution
    assert conv is not None
    image, source = a
    offsets = _rounded32(b[0], b[1])
    rows, cols = np.meshgrid(np.arange(image.shape[0]), np.arange(image.shape[1]), indexing="ij")
    weights = conv.weights.astype(np.int64) - conv.weight_zero_point.astype(np.int64)[:, None, None, None]
    total = np.zeros((*image.shape[:2], len(weights)), np.int64) + 1024 * conv.bias.astype(np.int64)
    for tap in range(conv.kernel[0] * conv.kernel[1]):
        ky, kx = divmod(tap, conv.kernel[1])
        y = 32 * (rows - conv.pads[0] + ky * conv.dilations[0]) + offsets[:, :, 2 * tap]
        x = 32 * (cols - conv.pads[2] + kx * conv.dilations[1]) + offsets[:, :, 2 * tap + 1]
        total += _sample(image, source.zero_point, y, x) @ weights[:, :, ky, kx].T
    product = (np.float32(source.scale) * conv.weight_scale).astype(np.float32)
    multiplier = (product / np.float32(result.scale)).astype(np.float32)
    scaled = np.rint(total.astype(np.float32) * (multiplier / np.float32(1024)))
    return _bytes(scaled.astype(np.float64) + result.zero_point, step.clamp)


def _dynamic_upsampling(step: Host, a: Operand, b: Operand, result: Value) -> Image:
    image, source = a
    rows, cols, channels = image.shape
    (height, width), factor = step.kernel, step.factor
    filters = b[0].astype(np.int64) - b[1].zero_point
    padded = np.zeros((rows + height - 1, cols + width - 1, channels), np.int64)
    padded[height // 2 : height // 2 + rows, width // 2 : width // 2 + cols] = (
        image.astype(np.int64) - source.zero_point
    )
    total = np.zeros((rows * factor, cols * factor, channels), np.int64)
    for tap in range(height * width):
        ky, kx = divmod(tap, width)
        window = padded[ky : ky + rows, kx : kx + cols]
        for dy in range(factor):
            for dx in range(factor):
                weight = filters[:, :, tap * factor**2 + dy * factor + dx, None]
                total[dy::factor, dx::factor] += window * weight
    return _rescaled(total, source, b[1], result, step.clamp)


def _linear_temporal_attention(step: Host, a: Operand, b: Operand, result: Value) -> Image:
    query = np.maximum(a[0].astype(np.int64) - a[1].zero_point, 0)
    memory = b[0].astype(np.int64) - b[1].zero_point
    rows, cols, channels = query.shape
    keys, values = memory.reshape(rows, cols, 2, -1, channels).transpose(2, 0, 1, 3, 4)
    score = (query[:, :, None, :] * np.maximum(keys, 0)).sum(axis=3)
    total = (score[..., None] * values).sum(axis=2)
    weight = score.sum(axis=2)[..., None]
    mean = np.where(weight > 0, total.astype(np.float64) / np.maximum(weight, 1).astype(np.float64), 0.0)
    ratio = np.float64(np.float32(b[1].scale) / np.float32(result.scale))
    return _bytes(np.rint(mean * ratio) + result.zero_point, step.clamp)


def _global_motion_warp(step: Host, a: Operand, b: Operand, result: Value) -> Image:
    image, source = a
    m = (b[0].reshape(-1).astype(np.float64) - b[1].zero_point) * np.float64(np.float32(b[1].scale))
    grid = np.meshgrid(np.arange(image.shape[0]), np.arange(image.shape[1]), indexing="ij")
    rows, cols = grid[0].astype(np.int64), grid[1].astype(np.int64)
    y = 32 * rows + np.rint(32 * (m[0] * cols + m[1] * rows + m[2])).astype(np.int64)
    x = 32 * cols + np.rint(32 * (m[3] * cols + m[4] * rows + m[5])).astype(np.int64)
    ratio = (np.float32(source.scale) / np.float32(result.scale)) / np.float32(1024)
    scaled = np.rint(_sample(image, source.zero_point, y, x).astype(np.float32) * ratio)
    return _bytes(scaled.astype(np.float64) + result.zero_point, step.clamp)


def _rounded32(image: Image, value: Value) -> Whole:
    steps = image.astype(np.float64) - value.zero_point
    return np.rint(steps * np.float64(np.float32(value.scale)) * 32).astype(np.int64)


def _sample(image: Image, zero_point: int, y: Whole, x: Whole) -> Whole:
    """1024 times the bilinear value at positions in 1/32 pixel; outside counts as 0."""
    top, left, fy, fx = y >> 5, x >> 5, y & 31, x & 31
    total = np.zeros((*y.shape, image.shape[2]), np.int64)
    for dy, row_weight in ((0, 32 - fy), (1, fy)):
        for dx, col_weight in ((0, 32 - fx), (1, fx)):
            row, col = top + dy, left + dx
            inside = (row >= 0) & (row < image.shape[0]) & (col >= 0) & (col < image.shape[1])
            pixel = image[np.where(inside, row, 0), np.where(inside, col, 0)].astype(np.int64) - zero_point
            total += pixel * (row_weight * col_weight * inside)[..., None]
    return total


def _rescaled(total: Whole, a: Value, b: Value, result: Value, clamp: Clamp) -> Image:
    ratio = np.float32(np.float32(a.scale) * np.float32(b.scale)) / np.float32(result.scale)
    scaled = np.rint(total.astype(np.float32) * ratio).astype(np.float64)
    return _bytes(scaled + result.zero_point, clamp)


def _bytes(numbers: npt.NDArray[np.float64], clamp: Clamp) -> Image:
    return np.asarray(np.clip(numbers, clamp.low, clamp.high), np.uint8)


_FUNCTIONS: Mapping[HostFunction, Callable[[Host, Operand, Operand, Value], Image]] = {
    HostFunction.SOFTMAX: _softmax,
    HostFunction.MATRIX_PRODUCT: _matrix_product,
    HostFunction.DEFORMABLE_ALIGNMENT: _deformable_alignment,
    HostFunction.DYNAMIC_UPSAMPLING: _dynamic_upsampling,
    HostFunction.LINEAR_TEMPORAL_ATTENTION: _linear_temporal_attention,
    HostFunction.GLOBAL_MOTION_WARP: _global_motion_warp,
}
