"""One converter for each supported ONNX operator. A converter's docstring says what it accepts.

A converter reads settled (dequantised) inputs and returns a :class:`Pending`, which becomes IR when
QuantizeLinear names the parameters of the result. Every refusal names node, reason and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.quantization import ActivationParameters, quantized_bias, quantized_weights
from compiler.importer.source import Array, SourceGraph, SourceNode
from compiler.ir import Add, Clamp, Clip, Conv, Move, Operator, Value, View
from compiler.limits import LIMITS
from contracts.npu import Layout


@dataclass(frozen=True)
class Settled:
    """A float tensor that is exactly a quantised value."""

    value: str


@dataclass(frozen=True)
class Shape:
    """Extents of a result whose quantisation is not known yet."""

    height: int
    width: int
    channels: int

    def value(self, name: str, parameters: ActivationParameters) -> Value:
        """The value once the parameters are known."""
        return Value(name, self.height, self.width, self.channels, parameters.scale, parameters.zero_point)


@dataclass(frozen=True)
class Range:
    """Bounds of ReLU or Clip in real numbers; infinite where open."""

    low: float
    high: float

    def clamp(self, value: Value) -> Clamp:
        """The same bounds in the bytes of ``value``."""
        bounds = np.array([self.low, self.high], np.float32)
        with np.errstate(over="ignore"):
            steps = np.rint(bounds / np.float32(value.scale)) + np.float32(value.zero_point)
        low, high = (int(step) for step in np.clip(steps, 0, 255))
        return Clamp(low, max(low, high))


@dataclass(frozen=True)
class Pending:
    """An operator that waits for its result's parameters, with the ReLUs and Clips that follow it."""

    node: str
    shape: Shape
    make: Callable[[Value], Operator | None]
    ranges: tuple[tuple[str, Range], ...] = ()
    source: str = ""  # set when there is no operator, only ranges on this settled value

    def settle(self, result: Value) -> list[tuple[Value, Operator]]:
        """The operators that make ``result``, each with its own result value."""
        clamp = Clamp()
        for _, bounds in self.ranges:
            clamp = clamp.narrowed(bounds.clamp(result))
        nodes = tuple(name for name, _ in self.ranges)
        name = nodes[-1] if nodes else self.node
        if self.source:
            return [(result, Clip(name, self.source, result.name, clamp, nodes))]
        if not self.ranges:
            return [(result, _made(self.make(result)))]
        raw = replace(result, name=f"{result.name}.raw")
        return [(raw, _made(self.make(raw))), (result, Clip(name, raw.name, result.name, clamp, nodes))]


def _made(operator: Operator | None) -> Operator:
    assert operator is not None
    return operator


@dataclass(frozen=True)
class Context:
    """What a converter may look at."""

    source: SourceGraph
    values: Mapping[str, Value]
    settled: Mapping[str, Settled]
    pending: Mapping[str, Pending]
    weights: Mapping[str, SourceNode]
    notes: list[str]
    operators: list[Operator]

    def operand(self, node: SourceNode, index: int) -> Value:
        """The quantised value behind an input; raises when the edge is float."""
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name in self.settled:
            return self.values[self.settled[name].value]
        producer = self.pending[name].node if name in self.pending else (name or f"input {index}")
        reason = f"the edge from {producer} is float"
        raise UnsupportedModel(node.name, reason, "put QuantizeLinear and DequantizeLinear on this edge")


Converter = Callable[[Context, SourceNode], Pending]


def convert_conv(context: Context, node: SourceNode) -> Pending:
    """Conv: 2-D, int8 weights behind DequantizeLinear, explicit pads (four independent), stride, dilation,
    groups.
    """
    source = context.operand(node, 0)
    weight_node = context.weights.get(node.inputs[1])
    if weight_node is None:
        raise UnsupportedModel(node.name, "weights are float", "quantise the weights (DequantizeLinear of int8)")
    weights = quantized_weights(weight_node, context.source.constants)
    bias_name = node.inputs[2] if len(node.inputs) > 2 else ""
    bias_scale = (np.float32(source.scale) * weights.scale).astype(np.float32)
    bias = quantized_bias(
        node.name,
        context.weights.get(bias_name),
        context.source.constants.get(bias_name),
        context.source.constants,
        bias_scale,
    )
    if bias_name and bias_name not in context.weights and bias_name not in context.source.constants:
        raise UnsupportedModel(node.name, f"bias {bias_name} is not a constant", "export the bias as an initializer")
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


def convert_relu(context: Context, node: SourceNode) -> Pending:
    """Relu: behind any supported operator, before or after its QuantizeLinear."""
    return _ranged(context, node, Range(0.0, np.inf))


def convert_clip(context: Context, node: SourceNode) -> Pending:
    """Clip: constant bounds, behind any supported operator."""
    bounds = [-np.inf, np.inf]
    for index in (1, 2):
        name = node.inputs[index] if index < len(node.inputs) else ""
        if not name:
            continue
        bounds[index - 1] = _scalar(context, node, name)
    return _ranged(context, node, Range(bounds[0], bounds[1]))


def convert_add(context: Context, node: SourceNode) -> Pending:
    """Add: two quantised tensors of the same shape."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    if a.shape != b.shape:
        raise UnsupportedModel(node.name, f"shapes {a.shape} and {b.shape} differ", "add tensors of equal shape")
    if _conv_index(context.operators, b.name) > _conv_index(context.operators, a.name):
        a, b = b, a  # the order that docs/reference/arithmetic.md fixes

    def make(result: Value) -> Add:
        return Add(node.name, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, Shape(*a.shape), make)


def convert_space_to_depth(context: Context, node: SourceNode) -> Pending:
    """SpaceToDepth: ONNX channel order, extents divisible by blocksize."""
    block = _block(node)
    if node.text("mode", "DCR") != "DCR":
        raise UnsupportedModel(node.name, f"mode {node.text('mode', '')}", "use SpaceToDepth in its default order")
    source = context.operand(node, 0)
    if source.height % block or source.width % block:
        reason = f"{source.height}x{source.width} is not divisible by blocksize {block}"
        raise BadProfile(node.name, reason, f"give a profile with extents divisible by {block}")
    return _move(node, source, View(Layout.S2D, block), View())


def convert_depth_to_space(context: Context, node: SourceNode) -> Pending:
    """DepthToSpace: mode CRD (PixelShuffle), channels divisible by blocksize squared."""
    block = _block(node)
    if node.text("mode", "DCR") != "CRD":
        raise UnsupportedModel(node.name, "mode DCR", "use mode CRD (PixelShuffle)")
    source = context.operand(node, 0)
    if source.channels % block**2:
        reason = f"{source.channels} channels are not divisible by {block**2}"
        raise UnsupportedModel(node.name, reason, "change blocksize or channels")
    return _move(node, source, View(), View(Layout.D2S, block))


def convert_resize(context: Context, node: SourceNode) -> Pending:
    """Resize: mode nearest, enlargement by one whole number on both axes, any rounding that repeats pixels
    evenly.
    """
    source = context.operand(node, 0)
    if node.text("mode", "nearest") != "nearest":
        raise UnsupportedModel(node.name, f"mode {node.text('mode', 'nearest')}", "use mode nearest")
    block = _resize_block(context, node, source)
    if not _repeats_evenly(node, source, block):
        reason = "coordinate_transformation_mode and nearest_mode do not repeat each pixel evenly"
        raise UnsupportedModel(node.name, reason, "use asymmetric with floor")
    return _move(node, source, View(Layout.NEAREST, block), View())


CONVERTERS: Mapping[str, Converter] = {
    "Add": convert_add,
    "Clip": convert_clip,
    "Conv": convert_conv,
    "DepthToSpace": convert_depth_to_space,
    "Relu": convert_relu,
    "Resize": convert_resize,
    "SpaceToDepth": convert_space_to_depth,
}


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


def _ranged(context: Context, node: SourceNode, bounds: Range) -> Pending:
    name = node.inputs[0]
    if name in context.pending:
        before = context.pending[name]
        return replace(before, ranges=(*before.ranges, (node.name, bounds)))
    value = context.operand(node, 0)
    return _ranged_value(node, value, bounds)


def _ranged_value(node: SourceNode, value: Value, bounds: Range) -> Pending:
    return Pending(node.name, Shape(*value.shape), lambda _: None, ((node.name, bounds),), source=value.name)


def _move(node: SourceNode, source: Value, read: View, write: View) -> Pending:
    view = read if read.layout != Layout.NHWC else write
    if write.layout == Layout.D2S:
        shape = (source.height * view.block, source.width * view.block, source.channels // view.block**2)
    else:
        shape = read.logical(source.shape)

    def make(result: Value) -> Move:
        if not result.same_quantization(source):
            reason = f"scale or zero point change across {node.operator}"
            raise UnsupportedModel(node.name, reason, "use the same scale and zero point on both sides")
        return Move(node.name, source.name, result.name, read, write, (node.name,))

    return Pending(node.name, Shape(*shape), make)


def _conv_index(operators: list[Operator], value: str) -> int:
    """Position of the convolution that makes ``value``, also through Clip or DepthToSpace; else -1."""
    for index in range(len(operators) - 1, -1, -1):
        operator = operators[index]
        if operator.result != value:
            continue
        if isinstance(operator, Clip) or (isinstance(operator, Move) and operator.write.layout == Layout.D2S):
            value = operator.source
            continue
        return index if isinstance(operator, Conv) else -1
    return -1


def _block(node: SourceNode) -> int:
    block = node.integer("blocksize", 0)
    if not 1 <= block <= 16:
        raise UnsupportedModel(node.name, f"blocksize {block}", "use a blocksize of 1 to 16")
    return block


def _scalar(context: Context, node: SourceNode, name: str) -> float:
    value = context.source.constants.get(name)
    if value is None and name in context.weights:
        raise UnsupportedModel(node.name, f"bound {name} is quantised", "export Clip bounds as float constants")
    if value is None or value.size != 1 or not np.isfinite(float(value.reshape(()))):
        raise UnsupportedModel(node.name, f"bound {name} is not a finite constant", "export constant Clip bounds")
    return float(value.reshape(()))


def _resize_block(context: Context, node: SourceNode, source: Value) -> int:
    constants = context.source.constants
    scales = constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    sizes = constants.get(node.inputs[3]) if len(node.inputs) > 3 else None
    if scales is not None and scales.size == 4:
        factors = [float(value) for value in scales.reshape(-1)]
    elif sizes is not None and sizes.size == 4:
        extents = (1, source.channels, source.height, source.width)
        factors = [float(size) / extent for size, extent in zip(sizes.reshape(-1), extents, strict=True)]
    else:
        raise UnsupportedModel(node.name, "scales are not constant", "export Resize with constant scales")
    block = factors[2]
    if factors[:2] != [1.0, 1.0] or factors[3] != block or block != int(block) or not 1 <= block <= 16:
        raise UnsupportedModel(node.name, f"scales {factors}", "enlarge height and width by one whole number")
    return int(block)


def _repeats_evenly(node: SourceNode, source: Value, block: int) -> bool:
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),  # type: ignore[operator]  # float arrays
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),  # type: ignore[operator]  # float arrays
    }
    if rounding not in rounders or transformation not in ("asymmetric", "half_pixel", "pytorch_half_pixel"):
        return False
    for extent in (source.height, source.width):
        index = np.arange(extent * block, dtype=np.float64)
        position = index / block if transformation == "asymmetric" else (index + 0.5) / block - 0.5
        chosen = np.clip(rounders[rounding](position), 0, extent - 1)
        if not np.array_equal(chosen, index // block):
            return False
    return True
