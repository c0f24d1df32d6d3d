"""Tables of 256 bytes: functions of one operand, changes of scale, additions and products with constants.

``docs/reference/arithmetic.md``, "Table": float32 where ONNX dequantises and quantises, float64 inside.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from compiler.ir import Table, Value

Reals = npt.NDArray[np.float64]
Function = Callable[[Reals], Reals]
Tables = npt.NDArray[np.uint8]


def function_tables(source: Value, result: Value, function: Function) -> Tables:
    """[1 or channels][256]: ``function`` takes reals [1][256] and may give one row for each channel."""
    steps = np.arange(256, dtype=np.int64) - source.zero_point
    reals = (steps.astype(np.float32) * np.float32(source.scale)).astype(np.float32)
    with np.errstate(all="ignore"):
        values = np.asarray(function(reals.astype(np.float64)[None, :])).astype(np.float32)
        quantized = np.rint(values / np.float32(result.scale)) + np.float32(result.zero_point)
    return np.asarray(np.clip(np.nan_to_num(quantized, nan=result.zero_point), 0, 255), np.uint8)


def rescaling(name: str, source: Value, result: Value) -> Table:
    """Another scale and zero point for the same numbers."""
    return Table(name, source.name, result.name, function_tables(source, result, lambda x: x), (name,))


def every_byte() -> Tables:
    """The bytes 0..255 as an image 1 x 256 x 1."""
    return np.arange(256, dtype=np.uint8)[None, :, None]


def composed(first: Tables, second: Tables) -> Tables:
    """``second`` behind ``first``."""
    rows = max(len(first), len(second))
    a, b = (np.broadcast_to(tables, (rows, 256)) for tables in (first, second))
    return np.ascontiguousarray(np.take_along_axis(b, a.astype(np.int64), axis=1))
