"""Conv: weights, bias and geometry, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compiler.errors import BadProfile, BadQuantization, UnsupportedModel
from compiler.importer.pending import Pending, Shape
from compiler.importer.quantization import QuantizedWeights, quantized_bias, quantized_weights
from compiler.importer.scaling import scaled
from compiler.importer.source import Array, SourceNode
from compiler.importer.tables import Reals
from compiler.importer.walk import Walk
from compiler.ir import Conv, Value
from compiler.limits import LIMITS


def convert_conv(walk: Walk, node: SourceNode) -> Pending:
    """Conv: 2-D, 8-bit weights behind DequantizeLinear (scale and zero point for each output channel), four
    independent pads or auto_pad, stride, dilation, groups.
    """
    source = walk.operand(node, 0)
    constant = walk.weights.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if constant is None:
        raise UnsupportedModel(node.name, "weights are float", "quantise the weights (DequantizeLinear of int8)")
    weights = quantized_weights(constant)
    bias = quantized_node_bias(walk, node, source, weights)
    geometry = geometry_of(node, source, weights.values)
    shape = geometry.result(node, source, weights.values)
    return _pending(_Parts(node, source, weights, bias, geometry, (node.name,)), shape)


@dataclass(frozen=True, eq=False)
class _Parts:
    """A convolution without its result's parameters."""

    node: SourceNode
    source: Value
    weights: QuantizedWeights
    bias: npt.NDArray[np.int32]
    geometry: Geometry
    origin: tuple[str, ...]


def _pending(parts: _Parts, shape: Shape) -> Pending:
    def make(result: Value) -> Conv:
        made = convolution(parts.node, parts.source, result, parts.weights, parts.bias, parts.geometry)
        return replace(made, origin=parts.origin)

    def with_line(node: str, gain: Reals, shift: Reals) -> Pending:
        weights, bias = scaled(node, parts.source, parts.weights, parts.bias, gain, shift)
        return _pending(replace(parts, weights=weights, bias=bias, origin=(*parts.origin, node)), shape)

    return Pending(parts.node.name, shape, make, scaled=with_line)


def convolution(
    node: SourceNode,
    source: Value,
    result: Value,
    weights: QuantizedWeights,
    bias: npt.NDArray[np.int32],
    geometry: Geometry,
) -> Conv:
    """The IR operator."""
    return Conv(
        name=node.name,
        source=source.name,
        result=result.name,
        weights=weights.values,
        weight_scale=weights.scale,
        weight_zero_point=weights.zero_point,
        bias=bias,
        strides=geometry.strides,
        pads=geometry.pads,
        dilations=geometry.dilations,
        groups=geometry.groups,
        scale=result.scale,
        zero_point=result.zero_point,
        origin=(node.name,),
    )


def quantized_node_bias(
    walk: Walk, node: SourceNode, source: Value, weights: QuantizedWeights
) -> npt.NDArray[np.int32]:
    """The third input as int32 at the convolution's scale."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    if name and name not in walk.weights and name not in walk.constants:
        raise UnsupportedModel(node.name, f"bias {name} is not a constant", "export the bias as an initializer")
    with np.errstate(over="ignore", under="ignore"):
        scale = (np.float32(source.scale) * weights.scale).astype(np.float32)
    if not np.isfinite(scale).all() or (scale < np.finfo(np.float32).tiny).any():
        raise BadQuantization(node.name, "input scale x weight scale is no float32 number", "quantise the model again")
    return quantized_bias(node.name, walk.weights.get(name), walk.constants.get(name), scale)


@dataclass(frozen=True)
class Geometry:
    """Strides, pads (top, bottom, left, right), dilations and groups, checked against the shapes."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int

    def result(self, node: SourceNode, source: Value, weights: Array) -> Shape:
        """Extents of the result; raises when the numbers do not agree."""
        outputs, inputs, height, width = weights.shape
        groups = self.groups
        kernel = node.integers("kernel_shape", (height, width))
        agree = groups >= 1 and inputs * groups == source.channels and outputs % groups == 0
        if kernel != (height, width) or not agree:
            reason = f"weights {weights.shape}, groups {groups}, kernel {kernel} against {source.channels} channels"
            raise UnsupportedModel(node.name, reason, "export the model again")
        numbers = (*self.strides, *self.dilations)
        if max(kernel) > LIMITS.kernel or max(numbers) > LIMITS.stride or min(numbers) < 1 or max(self.pads) > 255:
            reason = f"kernel {kernel}, strides {self.strides}, dilations {self.dilations}, pads {self.pads}"
            raise UnsupportedModel(node.name, reason, f"kernels up to {LIMITS.kernel}, other numbers 1 to 255")
        if max(outputs, source.channels) > LIMITS.channels:
            raise UnsupportedModel(node.name, f"more than {LIMITS.channels} channels", "use fewer channels")
        rows = _extent(source.height, self.pads[0] + self.pads[1], height, self.strides[0], self.dilations[0])
        cols = _extent(source.width, self.pads[2] + self.pads[3], width, self.strides[1], self.dilations[1])
        if rows < 1 or cols < 1:
            raise BadProfile(node.name, f"no output pixels from {source.height}x{source.width}", "use a larger profile")
        return Shape(rows, cols, outputs)


def geometry_of(node: SourceNode, source: Value, weights: Array) -> Geometry:
    """The attributes of a Conv."""
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    pads = pads_of(node, source, (weights.shape[2], weights.shape[3]), strides, dilations)
    return Geometry(strides, pads, dilations, node.integer("group", 1))


def pair(node: SourceNode, name: str) -> tuple[int, int]:
    """Two numbers, 1 when absent."""
    first, second = node.integers(name, (1, 1))
    return first, second


def _extent(size: int, pads: int, kernel: int, stride: int, dilation: int) -> int:
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


def pads_of(
    node: SourceNode, source: Value, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Top, bottom, left, right from ``pads`` or ``auto_pad``."""
    auto = node.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        rows = _same(source.height, kernel[0], strides[0], dilations[0])
        cols = _same(source.width, kernel[1], strides[1], dilations[1])
        lower = auto == "SAME_LOWER"
        (top, bottom), (left, right) = ((-(-n // 2), n // 2) if lower else (n // 2, -(-n // 2)) for n in (rows, cols))
        return top, bottom, left, right
    if auto not in ("NOTSET", "VALID"):
        raise UnsupportedModel(node.name, f"auto_pad {auto}", "export explicit pads")
    top, left, bottom, right = (0, 0, 0, 0) if auto == "VALID" else node.integers("pads", (0, 0, 0, 0))
    if min(top, left, bottom, right) < 0:
        raise UnsupportedModel(node.name, "negative pads", "export explicit pads of at least 0")
    return top, bottom, left, right


def _same(extent: int, kernel: int, stride: int, dilation: int) -> int:
    if min(kernel, stride, dilation) < 1:
        return 0
    return max(0, (-(-extent // stride) - 1) * stride + dilation * (kernel - 1) + 1 - extent)
