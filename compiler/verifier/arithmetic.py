"""The parameters of an operation that two operands go into, and the ranges in which arithmetic is exact."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from compiler.verifier.commands import Command
from compiler.verifier.frame import Frame
from contracts.npu import Op

_LOW, _HIGH = 2.0**-14, 2.0**8


def check_scales(frame: Frame, index: int, command: Command) -> None:
    """Scales of an addition or product are positive and finite (the second operand may be subtracted), the
    clamp is not empty.
    """
    frame.clamp(index, command.add_lo, command.add_hi)
    scales = command.a_scale, command.b_scale, command.c_scale
    first, second = (1, 0) if command.residual_first else (0, 1)
    trouble = _scales_problem(scales[first], scales[second], command.c_scale, ratios=command.op != Op.MUL)
    if trouble:
        frame.report.add(index, "quantisation", f"scales {scales}: {trouble}")


@lru_cache(maxsize=4096)
def _scales_problem(a: float, b: float, c: float, *, ratios: bool) -> str | None:
    if not all(math.isfinite(scale) for scale in (a, b, c)):
        return "not finite"
    if a <= 0 or c <= 0 or b == 0 or (b < 0 and not ratios):
        return "not positive"
    with np.errstate(over="ignore", under="ignore"):
        if not ratios:
            factor = np.float32(np.float32(a) * np.float32(b)) / np.float32(c)
            return None if np.isfinite(factor) and factor > 0 else "their product leaves float32"
        both = [np.float32(abs(scale)) / np.float32(c) for scale in (a, b)]
    return None if all(_LOW <= ratio < _HIGH for ratio in both) else "their ratio leaves 2^-14 .. 2^8"
