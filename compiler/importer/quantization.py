"""Quantisation parameters from ONNX constants, checked: finite, positive, in range, right shape.

Invariant: what leaves this file is uint8 activations and int8 weights; int8 activations and uint8 weights are
shifted by 128 together with their zero points, which changes no result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    signed: bool = False


@dataclass(frozen=True, eq=False)
class QuantizedConstant:
    """A constant behind DequantizeLinear: integers, scale and zero point along ``axis`` (or one for all)."""

    node: str
    values: Array
    scale: npt.NDArray[np.float32]
    zero_point: Array
    axis: int

    def transposed(self, order: tuple[int, ...]) -> QuantizedConstant:
        """Axes in another order; the quantisation axis goes along."""
        axis = order.index(self.axis) if self.axis in order else self.axis
        return replace(self, values=np.ascontiguousarray(np.transpose(self.values, order)), axis=axis)

    def reshaped(self, shape: tuple[int, ...]) -> QuantizedConstant:
        """Another shape; the quantisation axis has to survive whole."""
        values = self.values.reshape(shape)
        if self.scale.size == 1 and self.zero_point.size == 1:
            return replace(self, values=values)
        before = math.prod(self.values.shape[: self.axis])
        for axis, extent in enumerate(values.shape):
            if extent == self.values.shape[self.axis] and math.prod(values.shape[:axis]) == before:
                return replace(self, values=values, axis=axis)
        reason = f"a Reshape to {list(shape)} cuts through the quantisation axis"
        raise UnsupportedModel(self.node, reason, "quantise after reshaping")

    def parameters(self) -> ActivationParameters:
        """Scale and uint8 zero point of a constant operand."""
        if self.scale.size != 1 or self.zero_point.size != 1 or self.values.dtype not in (np.uint8, np.int8):
            reason = f"a constant operand of type {self.values.dtype} with {self.scale.size} scales"
            raise UnsupportedModel(self.node, reason, "quantise it to 8 bit with one scale")
        shift = 128 if self.values.dtype == np.int8 else 0
        return ActivationParameters(_scale(self.node, self.scale), int(self.zero_point.reshape(-1)[0]) + shift)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The integers as uint8; int8 shifted by 128."""
        shift = 128 if self.values.dtype == np.int8 else 0
        return np.asarray(self.values.astype(np.int16) + shift, np.uint8)

    def reals(self) -> npt.NDArray[np.float64]:
        """What the integers mean."""
        shape = [1] * self.values.ndim
        if self.scale.size > 1:
            shape[self.axis] = -1
        zero, scale = (part.astype(np.float64) for part in (self.zero_point, self.scale))
        if self.zero_point.size > 1:
            zero = zero.reshape(shape)
        return np.asarray((self.values.astype(np.float64) - zero) * scale.reshape(shape if scale.size > 1 else ()))


def quantized_constant(node: SourceNode, constants: Mapping[str, Array]) -> QuantizedConstant:
    """The constant behind a DequantizeLinear."""
    values, scale = _constant(node, 0, constants), _constant(node, 1, constants)
    zero = _constant(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] else np.zeros((), values.dtype)
    if scale.dtype.kind != "f" or zero.dtype.kind not in "iu" or node.integer("block_size", 0):
        reason = f"scale of type {scale.dtype}, zero point of type {zero.dtype}, or blocks"
        raise UnsupportedModel(node.name, reason, "use one scale for the tensor or for each channel")
    axis = node.integer("axis", 1)
    axis = axis + values.ndim if axis < 0 else axis
    return QuantizedConstant(node.name, values, scale.astype(np.float32), zero, axis)


@dataclass(frozen=True)
class QuantizedWeights:
    """int8 weights [out][in][kh][kw] with scale and zero point for each output channel."""

    values: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int8]


def activation_parameters(
    node: SourceNode, constants: Mapping[str, Array], *, signed: bool = False
) -> ActivationParameters:
    """Parameters of a Q or DQ node on an activation; ``signed``: the type when the zero point is left out."""
    scale = _constant(node, 1, constants)
    absent: Array = np.zeros((), np.int8 if signed or node.integer("output_dtype", 2) == 3 else np.uint8)
    zero = _constant(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] else absent
    if scale.size != 1 or zero.size != 1:
        reason = f"{scale.size} scales for an activation"
        raise UnsupportedModel(node.name, reason, "quantise activations with one scale for the tensor")
    if zero.dtype not in (np.uint8, np.int8):
        reason = f"activation type {zero.dtype}"
        if np.issubdtype(zero.dtype, np.integer) and not -128 <= int(zero.reshape(())) <= 255:
            raise BadQuantization(node.name, f"zero point {int(zero.reshape(()))} is out of range", _AGAIN)
        raise UnsupportedModel(node.name, reason, "quantise activations to 8 bit (uint8 or int8)")
    shift = 128 if zero.dtype == np.int8 else 0
    return ActivationParameters(_scale(node.name, scale), int(zero.reshape(())) + shift, zero.dtype == np.int8)


def _scale(node: str, scale: Array) -> float:
    if scale.dtype.kind != "f":
        raise UnsupportedModel(node, f"scale of type {scale.dtype}", "use float32 scales")
    with np.errstate(over="ignore"):
        value = float(scale.reshape(()).astype(np.float32))
    if not np.isfinite(value) or value < float(np.finfo(np.float32).tiny):
        raise BadQuantization(node, f"scale {value} is not a positive number", _AGAIN)
    return value


def quantized_weights(constant: QuantizedConstant) -> QuantizedWeights:
    """Convolution weights, one scale and zero point for each output channel."""
    values, zero = constant.values, constant.zero_point
    if values.dtype not in (np.int8, np.uint8) or zero.dtype != values.dtype:
        raise UnsupportedModel(constant.node, f"weights of type {values.dtype}", "quantise weights to 8 bit")
    if values.ndim != 4:
        raise UnsupportedModel(constant.node, f"weights with {values.ndim} axes", "use two-dimensional convolutions")
    outputs, scale = values.shape[0], constant.scale
    if max(scale.size, zero.size) > 1 and constant.axis != 0:
        reason = "weight scales along another axis"
        raise UnsupportedModel(constant.node, reason, "quantise per output channel (axis 0)")
    if scale.size not in (1, outputs) or zero.size not in (1, outputs):
        raise BadQuantization(
            constant.node, f"{scale.size} scales and {zero.size} zero points for {outputs} channels", _AGAIN
        )
    if not np.isfinite(scale).all() or (scale < np.finfo(np.float32).tiny).any():
        raise BadQuantization(constant.node, "a weight scale is not a positive number", _AGAIN)
    shift = 128 if values.dtype == np.uint8 else 0
    return QuantizedWeights(
        values=np.ascontiguousarray((values.astype(np.int16) - shift).astype(np.int8)),
        scale=np.broadcast_to(scale.reshape(-1), outputs).astype(np.float32),
        zero_point=np.broadcast_to((zero.astype(np.int16) - shift).astype(np.int8).reshape(-1), outputs).copy(),
    )


def quantized_bias(
    name: str, constant: QuantizedConstant | None, floats: Array | None, scale: npt.NDArray[np.float32]
) -> npt.NDArray[np.int32]:
    """Bias as int32 at ``scale`` (= xs * ws for each output channel); zeros when the convolution has none."""
    if constant is None and floats is None:
        return np.zeros(len(scale), np.int32)
    if constant is None:
        assert floats is not None
        return rounded_bias(name, floats.astype(np.float64).reshape(-1), scale)
    values = constant.values
    if values.dtype != np.int32 or values.size != len(scale) or np.any(constant.zero_point != 0):
        reason = f"bias of type {values.dtype}, {values.size} values"
        raise BadQuantization(constant.node, reason, "quantise the bias to int32 with zero point 0")
    agree = constant.scale.size in (1, len(scale))
    if not agree or not np.allclose(constant.scale.reshape(-1), scale, rtol=1e-4, atol=0):
        raise BadQuantization(constant.node, "bias scale is not input scale x weight scale", _AGAIN)
    return values.reshape(-1).astype(np.int32)


def rounded_bias(name: str, values: npt.NDArray[np.float64], scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Real numbers as int32 at ``scale``."""
    if values.size != len(scale):
        raise BadQuantization(name, f"{values.size} bias values for {len(scale)} channels", _AGAIN)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rounded = np.rint(values / scale)
    if not np.isfinite(rounded).all() or np.abs(rounded).max(initial=0) >= 2**31:
        raise BadQuantization(name, "bias is not finite or too large", _AGAIN)
    return rounded.astype(np.int32)


def _constant(node: SourceNode, index: int, constants: Mapping[str, Array]) -> Array:
    name = node.inputs[index] if index < len(node.inputs) else ""
    if name not in constants:
        reason = f"input {index} ({name or 'absent'}) is not a constant"
        raise UnsupportedModel(node.name, reason, "use static quantisation")
    return constants[name]
