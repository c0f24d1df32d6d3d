"""HOST: functions that the host's processor computes in the device's own arena, by their `mode`.

They are rare and small; they are written for exactness, not for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.operators.base import REMEDY, Operands
from edge_agent.runtime.npu.operators.host.attention import attention, matrix_product, softmax
from edge_agent.runtime.npu.operators.host.sampling import deformable_alignment, dynamic_upsampling, motion_warp
from edge_agent.runtime.npu.requantize import saturated
from edge_agent.runtime.npu.weights import HostMode

__all__ = ["host"]

Function = Callable[[Command, Operands], NDArray[np.float32] | NDArray[np.float64]]

_FUNCTIONS: Mapping[int, Function] = {
    HostMode.SOFTMAX: softmax,
    HostMode.MATRIX_PRODUCT: matrix_product,
    HostMode.DEFORMABLE: deformable_alignment,
    HostMode.UPSAMPLING: dynamic_upsampling,
    HostMode.ATTENTION: attention,
    HostMode.WARP: motion_warp,
}


def host(command: Command, operands: Operands) -> tuple[Step, ...]:
    """Return the step of a HOST command; its function gives codes before the clamp."""
    if command.mode not in _FUNCTIONS:
        raise PlanViolation(f"unknown host function {command.mode}", command.where, REMEDY)
    scales = command.addition
    used = [scale for scale in (scales.a_scale, scales.b_scale, scales.c_scale) if scale]
    if not np.isfinite(used).all() or min(used, default=1.0) < 0 or not scales.c_scale:
        raise PlanViolation(f"scales {used} of a host function", command.where, REMEDY)
    _check_shapes(command, operands)
    return (partial(_run, _FUNCTIONS[command.mode], command, operands),)


def _check_shapes(command: Command, operands: Operands) -> None:
    """Raise PlanViolation when second operand or result do not fit the first."""
    height, width, channels = operands.source.shape
    if command.mode == HostMode.SOFTMAX:
        return operands.expect(command, operands.source.shape)
    other = operands.both(command)[1].shape
    window = command.window
    taps, scale = window.kernel_height * window.kernel_width, window.stride_height
    wanted = {
        HostMode.MATRIX_PRODUCT: ((width, other[1], channels), (height, other[1], channels)),
        HostMode.DEFORMABLE: ((height, width, 2 * taps), (height, width, operands.target.shape[2])),
        HostMode.UPSAMPLING: ((height, width, taps * scale**2), (height * scale, width * scale, channels)),
        HostMode.ATTENTION: ((height, width, -(-other[2] // (2 * channels)) * 2 * channels), operands.source.shape),
        HostMode.WARP: ((1, 1, 6), operands.source.shape),
    }
    second, result = wanted[HostMode(command.mode)]
    if other != second or window.groups > 1:
        raise PlanViolation(f"a second operand of {other} where {second} belongs", command.where, REMEDY)
    return operands.expect(command, result)


@np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")
def _run(function: Function, command: Command, operands: Operands) -> None:
    codes = function(command, operands)
    operands.target[...] = saturated(codes, command.clamp.low, command.clamp.high)
