"""A gain and a shift for each output channel, taken into the scales and the bias of a convolution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.errors import BadQuantization
from compiler.importer.quantization import QuantizedWeights, rounded_bias
from compiler.importer.tables import Reals
from compiler.ir import Value

_AGAIN = "fold BatchNormalization before quantising"
Bias = npt.NDArray[np.int32]


def scaled(
    node: str, source: Value, weights: QuantizedWeights, bias: Bias, gain: Reals, shift: Reals
) -> tuple[QuantizedWeights, Bias]:
    """Weights and bias of ``gain * convolution + shift``: exact but for the rounding of scales and bias."""
    step = np.float64(np.float32(source.scale))
    reals = bias.astype(np.float64) * (step * weights.scale.astype(np.float64)) * gain + shift
    made = _weights(node, weights, gain)
    with np.errstate(over="ignore", under="ignore"):
        scale = (np.float32(source.scale) * made.scale).astype(np.float32)
    if not np.isfinite(scale).all() or (scale < np.finfo(np.float32).tiny).any():
        raise BadQuantization(node, "a scale of the folded convolution is no float32 number", _AGAIN)
    return made, rounded_bias(node, reals, scale)


def _weights(node: str, weights: QuantizedWeights, gain: Reals) -> QuantizedWeights:
    """The gain goes into the scales, its sign into the integers; a gain of zero leaves weights without weight."""
    values, zero = weights.values.astype(np.int16), weights.zero_point.astype(np.int16)
    sign = np.where(gain < 0, -1, 1).astype(np.int16)
    values, zero = values * sign[:, None, None, None], zero * sign
    values = np.where((gain == 0)[:, None, None, None], zero[:, None, None, None], values)
    if max(values.max(initial=0), zero.max(initial=0)) > 127:
        raise BadQuantization(node, "a negative gain turns the weight -128 over", _AGAIN)
    with np.errstate(over="ignore", under="ignore"):
        scale = (weights.scale.astype(np.float64) * np.where(gain == 0, 1.0, np.abs(gain))).astype(np.float32)
    return QuantizedWeights(np.ascontiguousarray(values.astype(np.int8)), scale, zero.astype(np.int8))
