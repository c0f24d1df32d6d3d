"""The operators of the arithmetic page once more, as plain loops: what the device's must equal."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
f32 = np.float32


def cut(value: float, low: int = 0, high: int = 255) -> int:
    return int(min(max(value, low), high))


def pool(x: Bytes, shape: tuple[int, int], p: dict[str, float], mode: int) -> Bytes:
    """Return a pooling by windows; `p` has the fields of the command."""
    rows, cols, channels = x.shape
    result = np.zeros((*shape, channels), np.uint8)
    for oy, ox, k in np.ndindex(result.shape):
        total, best, count = f32(0), 0, 0
        for ky in range(int(p["kh"])):
            for kx in range(int(p["kw"])):
                y = int(oy * p["sh"] - p["pt"] + ky * p["dh"])
                column = int(ox * p["sw"] - p["pl"] + kx * p["dw"])
                inside = 0 <= y < rows and 0 <= column < cols
                padded = -p["pt"] <= y < rows + p["pb"] and -p["pl"] <= column < cols + p["pr"]
                count += inside if mode == 1 else padded
                if inside:
                    best = max(best, int(x[y, column, k]))
                    total = f32(total + f32(f32(int(x[y, column, k]) - p["input_zp"]) * f32(p["a_scale"])))
        if mode == 0:
            result[oy, ox, k] = cut(best, int(p.get("clamp_lo", 0)), int(p.get("clamp_hi", 255)))
        else:
            code = np.rint(f32(f32(f32(total / f32(count)) / f32(p["c_scale"])) + f32(p["out_zp"])))
            result[oy, ox, k] = cut(code, int(p.get("clamp_lo", 0)), int(p.get("clamp_hi", 255)))
    return result


def mean(x: Bytes, p: dict[str, float]) -> Bytes:
    """Return the average of the whole map."""
    size = x.shape[0] * x.shape[1]
    multiplier = f32(p["a_scale"]) / f32(f32(p["c_scale"]) * f32(size))
    codes = []
    for k in range(x.shape[2]):
        total = sum(int(value) - int(p["input_zp"]) for value in x[:, :, k].reshape(-1))
        codes.append(cut(np.rint(f32(f32(total) * multiplier)) + p["out_zp"]))
    return np.array(codes, np.uint8).reshape(1, 1, -1)


def position(index: int, size: int, results: int, transformation: int) -> Fraction:
    if transformation == 0:
        return Fraction(index * size, results)
    if transformation == 1:
        return Fraction((2 * index + 1) * size - results, 2 * results)
    return Fraction(index * (size - 1), results - 1) if results > 1 else Fraction(0)


def nearest(index: int, size: int, results: int, transformation: int, rounding: int) -> int:
    at, half = position(index, size, results, transformation), Fraction(1, 2)
    place = [floor(at), ceil(at), ceil(at - half), floor(at + half)][rounding]
    return min(max(place, 0), size - 1)


def resize(x: Bytes, shape: tuple[int, int], transformation: int, rounding: int, mode: int) -> Bytes:
    """Return a resized image, through exact fractions."""
    rows, cols, channels = x.shape
    result = np.zeros((*shape, channels), np.uint8)
    for oy, ox in np.ndindex(shape):
        if mode == 0:
            y = nearest(oy, rows, shape[0], transformation, rounding)
            result[oy, ox] = x[y, nearest(ox, cols, shape[1], transformation, rounding)]
            continue
        y_at = position(oy, rows, shape[0], transformation)
        x_at = position(ox, cols, shape[1], transformation)
        for k in range(channels):
            total = Fraction(0)
            for dy, wy in ((0, 1 - (y_at - floor(y_at))), (1, y_at - floor(y_at))):
                for dx, wx in ((0, 1 - (x_at - floor(x_at))), (1, x_at - floor(x_at))):
                    place = min(max(floor(y_at) + dy, 0), rows - 1), min(max(floor(x_at) + dx, 0), cols - 1)
                    total += wy * wx * int(x[(*place, k)])
            result[oy, ox, k] = round(total)  # a Fraction rounds half to even
    return result


def sample(image: NDArray[np.int64], py: int, px: int, k: int) -> int:
    """Return 1024 times the image at (py, px) in 1/32 pixel."""
    y0, fy, x0, fx = py >> 5, py & 31, px >> 5, px & 31
    total = 0
    for y, wy in ((y0, 32 - fy), (y0 + 1, fy)):
        for x, wx in ((x0, 32 - fx), (x0 + 1, fx)):
            if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                total += wy * wx * int(image[y, x, k])
    return total
