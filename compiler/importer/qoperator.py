"""QOperator form to QDQ form: each integer operator becomes DequantizeLinear, the float operator,
QuantizeLinear.

One import path for both forms; results are those of the integer operators because the IR computes in integers
(``docs/reference/arithmetic.md``). All nodes made here carry the name of the integer operator, so that errors
name what the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import BadQuantization, UnsupportedModel
from compiler.importer.source import Array, Attribute, SourceGraph, SourceNode


@dataclass
class _Expansion:
    """Nodes and constants that replace one node."""

    node: SourceNode
    known: Mapping[str, Array]
    nodes: list[SourceNode]
    constants: dict[str, Array]

    def name(self, index: int) -> str:
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def constant(self, index: int, what: str) -> Array:
        name = self.name(index)
        if name not in self.known:
            reason = f"{what} ({name or 'absent'}) is not a constant"
            raise UnsupportedModel(self.node.name, reason, "use static quantisation")
        return self.known[name]

    def add(self, operator: str, inputs: tuple[str, ...], suffix: str, attributes: Mapping[str, Attribute]) -> str:
        output = f"{self.node.outputs[0]}<{suffix}>"
        self.nodes.append(SourceNode(self.node.name, operator, inputs, (output,), attributes))
        return output

    def dequantized(self, index: int, suffix: str, axis: int = 1) -> str:
        """The float tensor behind inputs (tensor, scale, zero point) at ``index``."""
        inputs = tuple(self.name(index + offset) for offset in range(3))
        return self.add("DequantizeLinear", inputs, suffix, {"axis": axis})

    def quantize(self, tensor: str, index: int) -> None:
        """The result through inputs (scale, zero point) at ``index``."""
        inputs = (tensor, self.name(index), self.name(index + 1))
        self.nodes.append(SourceNode(self.node.name, "QuantizeLinear", inputs, self.node.outputs[:1], {}))

    def bias(self, index: int, input_scale: int, weight_scale: int) -> str:
        """The int32 bias as a float tensor; empty when absent."""
        name = self.name(index)
        if not name:
            return ""
        scales = [self.constant(at, "a scale").astype(np.float32) for at in (input_scale, weight_scale)]
        if scales[0].size != 1:
            raise BadQuantization(self.node.name, f"{scales[0].size} scales for the input", "quantise the model again")
        scale, zero = f"{self.node.outputs[0]}<bias scale>", f"{self.node.outputs[0]}<bias zero>"
        self.constants[scale] = (scales[0].reshape(()) * scales[1]).astype(np.float32)
        self.constants[zero] = np.zeros((), np.int32)
        return self.add("DequantizeLinear", (name, scale, zero), "bias", {"axis": 0})


def expanded(source: SourceGraph) -> SourceGraph:
    """The same graph without QOperator nodes."""
    if not any(node.operator in _RULES for node in source.nodes):
        return source
    nodes: list[SourceNode] = []
    constants = dict(source.constants)
    for node in source.nodes:
        rule = _RULES.get(node.operator)
        if rule is None:
            nodes.append(node)
            continue
        if len(node.outputs) != 1:
            raise UnsupportedModel(node.name, f"{node.operator} with {len(node.outputs)} outputs", "use one output")
        expansion = _Expansion(node, constants, [], {})
        rule(expansion)
        nodes += expansion.nodes
        constants.update(expansion.constants)
    return replace(source, nodes=tuple(nodes), constants=constants)


def _convolution(expansion: _Expansion) -> None:
    inputs = [expansion.dequantized(0, "x"), expansion.dequantized(3, "w", axis=0)]
    bias = expansion.bias(8, 1, 4)
    made = expansion.add("Conv", (*inputs, bias) if bias else tuple(inputs), "conv", expansion.node.attributes)
    expansion.quantize(made, 6)


def _matrix_product(expansion: _Expansion) -> None:
    weights = expansion.known.get(expansion.name(3))
    inputs = expansion.dequantized(0, "a"), expansion.dequantized(3, "b", 1 if weights is None else weights.ndim - 1)
    expansion.quantize(expansion.add("MatMul", inputs, "product", {}), 6)


def _gemm(expansion: _Expansion) -> None:
    attributes = expansion.node.attributes
    axis = 0 if attributes.get("transB", 0) else 1
    inputs = [expansion.dequantized(0, "a"), expansion.dequantized(3, "b", axis)]
    bias = expansion.bias(6, 1, 4)
    made = expansion.add("Gemm", (*inputs, bias) if bias else tuple(inputs), "gemm", attributes)
    expansion.quantize(made, 7)


def _binary(operator: str) -> Callable[[_Expansion], None]:
    def rule(expansion: _Expansion) -> None:
        inputs = expansion.dequantized(0, "a"), expansion.dequantized(3, "b")
        expansion.quantize(expansion.add(operator, inputs, "result", {}), 6)

    return rule


def _unary(operator: str) -> Callable[[_Expansion], None]:
    def rule(expansion: _Expansion) -> None:
        if expansion.node.attributes.get("channels_last", 0):
            raise UnsupportedModel(expansion.node.name, "channels_last", "export in NCHW order")
        attributes = {key: value for key, value in expansion.node.attributes.items() if key != "channels_last"}
        inputs = (expansion.dequantized(0, "x"),)
        expansion.quantize(expansion.add(operator, inputs, "result", attributes), 3)

    return rule


def _concat(expansion: _Expansion) -> None:
    inputs = tuple(expansion.dequantized(index, f"part {index}") for index in range(2, len(expansion.node.inputs), 3))
    expansion.quantize(expansion.add("Concat", inputs, "joined", expansion.node.attributes), 0)


_RULES: Mapping[str, Callable[[_Expansion], None]] = {
    "QLinearConv": _convolution,
    "QLinearMatMul": _matrix_product,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearConcat": _concat,
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearSoftmax": _unary("Softmax"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary("AveragePool"),
}

FORMS: Mapping[str, str] = {
    name: {"QLinearConv": "Conv", "QLinearMatMul": "MatMul", "QGemm": "Gemm"}.get(name, name.removeprefix("QLinear"))
    for name in _RULES
}
"""Each integer operator and the float operator that it is read as."""
