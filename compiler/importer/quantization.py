"""Quantisation parameters from ONNX constants, checked: finite, positive, in range, right shape.

Invariant: what leaves this file is uint8 activations and int8 weights; int8 activations and uint8 weights are
shifted by 128 together with their zero points, which changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.errors import BadQuantization, UnsupportedModel
from compiler.importer.source import Array, SourceNode

_AGAIN = "quantise the model again"


@dataclass(frozen=True)
class ActivationParameters:
    """Scale and uint8 zero point of an activation."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class QuantizedWeights:
    """int8 weights [out][in][kh][kw] with scale and zero point for each output channel."""

    values: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int8]


def activation_parameters(node: SourceNode, constants: Mapping[str, Array]) -> ActivationParameters:
    """Parameters of a Q or DQ node on an activation."""
    scale = _constant(node, 1, constants)
    zero = _constant(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] else np.zeros((), np.uint8)
    if scale.size != 1 or zero.size != 1:
        reason = f"{scale.size} scales for an activation"
        raise UnsupportedModel(node.name, reason, "quantise activations with one scale for the tensor")
    if zero.dtype not in (np.uint8, np.int8):
        reason = f"activation type {zero.dtype}"
        if np.issubdtype(zero.dtype, np.integer) and not -128 <= int(zero.reshape(())) <= 255:
            raise BadQuantization(node.name, f"zero point {int(zero.reshape(()))} is out of range", _AGAIN)
        raise UnsupportedModel(node.name, reason, "quantise activations to 8 bit (uint8 or int8)")
    value = float(np.float32(scale.reshape(())))
    if not np.isfinite(value) or value < float(np.finfo(np.float32).tiny):
        raise BadQuantization(node.name, f"scale {value} is not a positive number", _AGAIN)
    shift = 128 if zero.dtype == np.int8 else 0
    return ActivationParameters(value, int(zero.reshape(())) + shift)


def quantized_weights(node: SourceNode, constants: Mapping[str, Array]) -> QuantizedWeights:
    """Weights behind the DequantizeLinear ``node``."""
    values = _constant(node, 0, constants)
    scale = _constant(node, 1, constants).astype(np.float32)
    zero = _constant(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] else np.zeros((), values.dtype)
    if values.dtype not in (np.int8, np.uint8) or zero.dtype != values.dtype:
        raise UnsupportedModel(node.name, f"weights of type {values.dtype}", "quantise weights to 8 bit")
    if values.ndim != 4:
        raise UnsupportedModel(node.name, f"weights with {values.ndim} axes", "use two-dimensional convolutions")
    outputs = values.shape[0]
    if scale.size > 1 and node.integer("axis", 1) % 4 != 0:
        raise UnsupportedModel(node.name, "weight scales along another axis", "quantise per output channel (axis 0)")
    if scale.size not in (1, outputs) or zero.size not in (1, outputs):
        raise BadQuantization(
            node.name, f"{scale.size} scales and {zero.size} zero points for {outputs} channels", _AGAIN
        )
    if not np.isfinite(scale).all() or (scale < np.finfo(np.float32).tiny).any():
        raise BadQuantization(node.name, "a weight scale is not a positive number", _AGAIN)
    shift = 128 if values.dtype == np.uint8 else 0
    return QuantizedWeights(
        values=np.ascontiguousarray((values.astype(np.int16) - shift).astype(np.int8)),
        scale=np.broadcast_to(scale.reshape(-1), outputs).astype(np.float32),
        zero_point=np.broadcast_to((zero.astype(np.int16) - shift).astype(np.int8).reshape(-1), outputs).copy(),
    )


def quantized_bias(
    name: str,
    dequantize: SourceNode | None,
    floats: Array | None,
    constants: Mapping[str, Array],
    scale: npt.NDArray[np.float32],
) -> npt.NDArray[np.int32]:
    """Bias as int32 at ``scale`` (= xs * ws for each output channel); zeros when the convolution has none."""
    if dequantize is None and floats is None:
        return np.zeros(len(scale), np.int32)
    if dequantize is None:
        assert floats is not None
        return _round_bias(name, floats.astype(np.float64).reshape(-1), scale)
    values = _constant(dequantize, 0, constants)
    found = np.broadcast_to(_constant(dequantize, 1, constants).astype(np.float32).reshape(-1), len(scale))
    zero = _constant(dequantize, 2, constants) if len(dequantize.inputs) > 2 and dequantize.inputs[2] else np.zeros(1)
    if values.dtype != np.int32 or values.size != len(scale) or np.any(zero != 0):
        reason = f"bias of type {values.dtype}, {values.size} values"
        raise BadQuantization(dequantize.name, reason, "quantise the bias to int32 with zero point 0")
    if not np.allclose(found, scale, rtol=1e-4, atol=0):
        raise BadQuantization(dequantize.name, "bias scale is not input scale x weight scale", _AGAIN)
    return values.reshape(-1).astype(np.int32)


def _round_bias(name: str, values: npt.NDArray[np.float64], scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    rounded = np.rint(values / scale)
    if values.size != len(scale) or not np.isfinite(rounded).all() or np.abs(rounded).max(initial=0) >= 2**31:
        raise BadQuantization(name, "bias is not finite, too large or of the wrong length", _AGAIN)
    return rounded.astype(np.int32)


def _constant(node: SourceNode, index: int, constants: Mapping[str, Array]) -> Array:
    name = node.inputs[index] if index < len(node.inputs) else ""
    if name not in constants:
        reason = f"input {index} ({name or 'absent'}) is not a constant"
        raise UnsupportedModel(node.name, reason, "use static quantisation")
    return constants[name]
