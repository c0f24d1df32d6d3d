"""Conv: weights, bias and geometry, checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.pending import Context, Pending, Shape
from compiler.importer.quantization import QuantizedWeights, quantized_bias, quantized_weights
from compiler.importer.source import Array, SourceNode
from compiler.ir import Conv, Value
from compiler.limits import LIMITS


def convert_conv(context: Context, node: SourceNode) -> Pending:
    """Conv: 2-D, int8 weights behind DequantizeLinear, explicit pads (four independent), stride, dilation,
    groups.
    """
    source = context.operand(node, 0)
    weight_node = context.weights.get(node.inputs[1])
    if weight_node is None:
        raise UnsupportedModel(node.name, "weights are float", "quantise the weights (DequantizeLinear of int8)")
    weights = quantized_weights(weight_node, context.source.constants)
    bias = _bias(context, node, source, weights)
    top, left, bottom, right = _pads(node)
    geometry = _Geometry(_pair(node, "strides"), (top, bottom, left, right), _pair(node, "dilations"))
    shape = geometry.result(node, source, weights.values)

    def make(result: Value) -> Conv:
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
            groups=node.integer("group", 1),
            scale=result.scale,
            zero_point=result.zero_point,
            origin=(node.name,),
        )

    return Pending(node.name, shape, make)


def _bias(context: Context, node: SourceNode, source: Value, weights: QuantizedWeights) -> npt.NDArray[np.int32]:
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    constants = context.source.constants
    if name and name not in context.weights and name not in constants:
        raise UnsupportedModel(node.name, f"bias {name} is not a constant", "export the bias as an initializer")
    scale = (np.float32(source.scale) * weights.scale).astype(np.float32)
    return quantized_bias(node.name, context.weights.get(name), constants.get(name), constants, scale)


@dataclass(frozen=True)
class _Geometry:
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    def result(self, node: SourceNode, source: Value, weights: Array) -> Shape:
        outputs, inputs, height, width = weights.shape
        groups = node.integer("group", 1)
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


def _pair(node: SourceNode, name: str) -> tuple[int, int]:
    first, second = node.integers(name, (1, 1))
    return first, second


def _extent(size: int, pads: int, kernel: int, stride: int, dilation: int) -> int:
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


def _pads(node: SourceNode) -> tuple[int, int, int, int]:
    auto = node.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        raise UnsupportedModel(node.name, f"auto_pad {auto}", "export explicit pads")
    top, left, bottom, right = (0, 0, 0, 0) if auto == "VALID" else node.integers("pads", (0, 0, 0, 0))
    if min(top, left, bottom, right) < 0:
        raise UnsupportedModel(node.name, "negative pads", "export explicit pads of at least 0")
    return top, left, bottom, right
