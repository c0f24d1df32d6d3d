"""Host functions that weigh and sum: softmax, matrix product, linear temporal attention."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.operators.base import Operands

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
_AXES = (2, 0, 1)  # channels, rows, columns


def softmax(command: Command, operands: Operands) -> Doubles:
    """Return the shares of a whole axis, from the compiler's table of exponentials."""
    source, scales = operands.source, command.addition
    constants = operands.constants or operands.fetch()
    exponentials = constants.parts[0].view("<i4").astype(np.int64)
    axis = _AXES[min(command.window.dilation_height, 2)]
    weights = exponentials[source.max(axis=axis, keepdims=True) - source]
    total = np.maximum(weights.sum(axis=axis, keepdims=True), 1)
    share = weights.astype(np.float64) / total.astype(np.float64) / np.float64(np.float32(scales.c_scale))
    codes: Doubles = np.rint(share) + scales.c_zero_point
    return codes


def matrix_product(command: Command, operands: Operands) -> NDArray[np.float32]:
    """Return [H, K, C] times [K, P, C] for each channel."""
    left, right = operands.both(command)
    scales = command.addition
    a, b = centred(left, scales.a_zero_point), centred(right, scales.b_zero_point)
    return rescaled(command, np.einsum("hkc,kpc->hpc", a, b))


def attention(command: Command, operands: Operands) -> Doubles:
    """Return the values of a memory, weighed by how far its keys agree with the query."""
    query, memory = operands.both(command)
    scales, (height, width, channels) = command.addition, query.shape
    entries = centred(memory, scales.b_zero_point).reshape(height, width, 2, -1, channels)
    keys, values = np.maximum(entries[:, :, 0], 0), entries[:, :, 1]
    wanted = np.maximum(centred(query, scales.a_zero_point), 0)
    score = np.einsum("hwc,hwtc->hwt", wanted, keys)
    total = np.einsum("hwt,hwtc->hwc", score, values).astype(np.float64)
    weight = score.sum(axis=2, keepdims=True).astype(np.float64)
    mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
    ratio = np.float64(np.float32(scales.b_scale) / np.float32(scales.c_scale))
    codes: Doubles = np.rint(mean * ratio) + scales.c_zero_point
    return codes


def centred(codes: Bytes, zero_point: int) -> Integers:
    """Return codes less their zero point."""
    return codes.astype(np.int64) - zero_point


def rescaled(command: Command, total: Integers) -> NDArray[np.float32]:
    """Return a sum of products of both operands in codes of the result."""
    scales = command.addition
    factor = np.float32(scales.a_scale) * np.float32(scales.b_scale) / np.float32(scales.c_scale)
    codes: NDArray[np.float32] = np.rint(total.astype(np.float32) * factor) + np.float32(scales.c_zero_point)
    return codes
