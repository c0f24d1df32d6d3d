"""Golden interpreter, vector unit: tables, products, pooling and resizing of ``docs/reference/arithmetic.md``.

Literal NumPy in int64, float32 where the page says f32, float64 nowhere else. Slow on purpose.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.ir import Clamp, Mul, Pool, Resize, Rounding, Transformation, Value
from contracts.npu.program import PoolMode

Image = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]


def look_up(image: Image, tables: npt.NDArray[np.uint8]) -> Image:
    """Each byte through its channel's table."""
    channels = np.arange(image.shape[2]) if len(tables) > 1 else np.zeros(image.shape[2], np.int64)
    return np.asarray(tables[channels[None, None, :], image], np.uint8)


def multiply(a: Image, b: Image, qa: Value, qb: Value, qc: Value, mul: Mul) -> Image:
    """The product, the zero point added before rounding."""
    ratio = np.float32(np.float32(np.float32(qa.scale) * np.float32(qb.scale)) / np.float32(qc.scale))
    product = (a.astype(np.int64) - qa.zero_point) * (b.astype(np.int64) - qb.zero_point)
    scaled = product.astype(np.float32) * ratio
    return _bytes(np.rint(scaled + np.float32(qc.zero_point)), mul.clamp)


def pool(image: Image, step: Pool, source: Value, result: Value) -> Image:
    """Maximum or average."""
    if step.mode == PoolMode.MAXIMUM:
        taps = [image.max(axis=(0, 1), keepdims=True)] if step.whole else [tap for tap, _ in _taps(image, step, 0)]
        return _bytes(np.max(taps, axis=0).astype(np.float64), step.clamp)
    return _whole_average(image, step, source, result) if step.whole else _average(image, step, source, result)


def _whole_average(image: Image, step: Pool, source: Value, result: Value) -> Image:
    total = (image.astype(np.int64) - source.zero_point).sum(axis=(0, 1), keepdims=True)
    count = np.float32(image.shape[0] * image.shape[1])
    ratio = np.float32(source.scale) / np.float32(np.float32(result.scale) * count)
    scaled = np.rint(total.astype(np.float32) * ratio).astype(np.float64)
    return _bytes(scaled + result.zero_point, step.clamp)


def _average(image: Image, step: Pool, source: Value, result: Value) -> Image:
    total: npt.NDArray[np.float32] | None = None
    count: npt.NDArray[np.float32] | None = None
    for tap, inside in _taps(image, step, source.zero_point):
        number = (tap.astype(np.int64) - source.zero_point).astype(np.float32) * np.float32(source.scale)
        total = number if total is None else total + number
        counted = inside.astype(np.float32)
        count = counted if count is None else count + counted
    assert total is not None
    assert count is not None
    mean = total / count[:, :, None]
    return _bytes(np.rint(mean / np.float32(result.scale) + np.float32(result.zero_point)), step.clamp)


def _taps(image: Image, step: Pool, fill: int) -> list[tuple[Image, npt.NDArray[np.bool_]]]:
    """For each tap in row-major order the bytes under it and where it counts: inside the image, or (mode 2)
    inside the padded one.
    """
    top, bottom, left, right = step.pads
    rows = _windows(image.shape[0] + top + bottom, step.kernel[0], step.strides[0], step.dilations[0])
    cols = _windows(image.shape[1] + left + right, step.kernel[1], step.strides[1], step.dilations[1])
    padded = np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    inside = np.pad(np.ones(image.shape[:2], bool), ((top, bottom), (left, right)))
    if step.mode == PoolMode.AVERAGE_PADDED:
        inside[:] = True
    taps = []
    for ky in range(step.kernel[0]):
        for kx in range(step.kernel[1]):
            y = ky * step.dilations[0] + np.arange(rows) * step.strides[0]
            x = kx * step.dilations[1] + np.arange(cols) * step.strides[1]
            taps.append((padded[np.ix_(y, x)], inside[np.ix_(y, x)]))
    return taps


def _windows(extent: int, kernel: int, stride: int, dilation: int) -> int:
    return (extent - dilation * (kernel - 1) - 1) // stride + 1


def resize(image: Image, step: Resize, result: Value) -> Image:
    """Nearest or linear, in whole numbers."""
    rows = _positions(image.shape[0], result.height, step.transformation)
    cols = _positions(image.shape[1], result.width, step.transformation)
    if not step.linear:
        y = _nearest(*rows, image.shape[0], step.rounding)
        x = _nearest(*cols, image.shape[1], step.rounding)
        return np.asarray(image[np.ix_(y, x)])
    total = np.zeros(result.shape, np.int64)
    for y, row_weight in _neighbours(*rows, image.shape[0]):
        for x, col_weight in _neighbours(*cols, image.shape[1]):
            weight = row_weight[:, None, None] * col_weight[None, :, None]
            total += weight * image[np.ix_(y, x)].astype(np.int64)
    return np.asarray(_divided(total, rows[1] * cols[1]), np.uint8)


def _positions(extent: int, wanted: int, transformation: Transformation) -> tuple[Whole, int]:
    """Numerators and the common denominator."""
    index = np.arange(wanted, dtype=np.int64)
    if transformation == Transformation.ASYMMETRIC:
        return index * extent, wanted
    if transformation == Transformation.HALF_PIXEL:
        return (2 * index + 1) * extent - wanted, 2 * wanted
    return (index * (extent - 1), wanted - 1) if wanted > 1 else (index * 0, 1)


def _nearest(numerator: Whole, denominator: int, extent: int, rounding: Rounding) -> Whole:
    if rounding == Rounding.FLOOR:
        chosen = numerator // denominator
    elif rounding == Rounding.CEIL:
        chosen = -(-numerator // denominator)
    elif rounding == Rounding.PREFER_FLOOR:
        chosen = -((denominator - 2 * numerator) // (2 * denominator))
    else:
        chosen = (2 * numerator + denominator) // (2 * denominator)
    return np.clip(chosen, 0, extent - 1)


def _neighbours(numerator: Whole, denominator: int, extent: int) -> list[tuple[Whole, Whole]]:
    first = numerator // denominator
    weight = numerator - first * denominator
    low, high = np.clip(first, 0, extent - 1), np.clip(first + 1, 0, extent - 1)
    return [(low, denominator - weight), (high, weight)]


def _divided(total: Whole, divisor: int) -> Whole:
    quotient, remainder = np.divmod(total, divisor)
    up = (2 * remainder > divisor) | ((2 * remainder == divisor) & (quotient % 2 == 1))
    return np.asarray(quotient + up, np.int64)


def _bytes(numbers: npt.NDArray[np.floating], clamp: Clamp) -> Image:
    return np.asarray(np.clip(numbers, clamp.low, clamp.high), np.uint8)
