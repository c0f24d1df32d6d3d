"""The walk: a folded source graph and one input size become integer IR.

A float tensor between DequantizeLinear and QuantizeLinear is *pending*: an operator waiting for the
parameters of its result. QuantizeLinear settles it. Anything that would stay float is an error that names the
edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.operators import CONVERTERS
from compiler.importer.pending import Context, Pending, Settled
from compiler.importer.quantization import ActivationParameters, activation_parameters
from compiler.importer.source import SourceGraph, SourceNode
from compiler.ir import Graph, Operator, Value, check
from compiler.limits import LIMITS


@dataclass
class _Walk:
    source: SourceGraph
    height: int
    width: int
    values: dict[str, Value] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    quantized: dict[str, str] = field(default_factory=dict)  # integer tensor -> value
    settled: dict[str, Settled] = field(default_factory=dict)  # float tensor behind DQ
    pending: dict[str, Pending] = field(default_factory=dict)  # float tensor before Q
    weights: dict[str, SourceNode] = field(default_factory=dict)  # float tensor -> DQ of a constant
    notes: list[str] = field(default_factory=list)


def build_graph(source: SourceGraph, height: int, width: int) -> Graph:
    """The IR for frames of ``height`` x ``width``; raises CompileError."""
    walk = _Walk(source, height, width)
    for node in source.nodes:
        _VISITORS.get(node.operator, _visit_operator)(walk, node)
    outputs = tuple((name, _output_value(walk, name)) for name in source.outputs)
    made_input = walk.quantized.get(f"<input>{source.input}")
    if made_input is None:
        raise UnsupportedModel(source.input, "the input is never quantised", "put QuantizeLinear behind the input")
    if any(value == made_input for _, value in outputs):
        raise UnsupportedModel(outputs[0][0], "an output is the input itself", "remove this output")
    graph = Graph(source.name, made_input, outputs, walk.values, tuple(walk.operators), tuple(walk.notes))
    return check(graph.with_operators(_needed(graph)))


def _needed(graph: Graph) -> list[Operator]:
    """Operators that an output depends on, in order."""
    wanted = {value for _, value in graph.outputs}
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if operator.result in wanted:
            wanted.update(operator.reads)
            kept.append(operator)
    return kept[::-1]


def _visit_quantize(walk: _Walk, node: SourceNode) -> None:
    tensor, result = node.inputs[0], node.outputs[0]
    parameters = activation_parameters(node, walk.source.constants)
    if tensor == walk.source.input:
        walk.quantized[result] = _input_value(walk, node, parameters)
    elif tensor in walk.pending:
        pending = walk.pending[tensor]
        value = pending.shape.value(result, parameters)
        walk.values[result] = value
        for extra, operator in pending.settle(value):
            walk.values[extra.name] = extra
            walk.operators.append(operator)
        walk.quantized[result] = result
    elif tensor in walk.settled:
        _requantize(walk, node, parameters, walk.settled[tensor])
    else:
        raise UnsupportedModel(node.name, f"quantises {tensor}, which is not in the integer path", _QDQ)


def _input_value(walk: _Walk, node: SourceNode, parameters: ActivationParameters) -> str:
    shape = walk.source.input_shape
    channels = shape[1]
    if channels is None or not 1 <= channels <= LIMITS.channels or shape[0] not in (None, 1):
        reason = f"input shape {list(shape)}"
        raise UnsupportedModel(walk.source.input, reason, "use batch 1 and a fixed number of channels")
    for fixed, wanted in ((shape[2], walk.height), (shape[3], walk.width)):
        if fixed is not None and fixed != wanted:
            reason = f"profile {walk.height}x{walk.width} against the fixed input {shape[2]}x{shape[3]}"
            raise BadProfile(walk.source.input, reason, "give the model's own size or export dynamic axes")
    key = f"<input>{walk.source.input}"
    if key in walk.quantized:
        known = walk.values[walk.quantized[key]]
        if (known.scale, known.zero_point) != (parameters.scale, parameters.zero_point):
            raise UnsupportedModel(node.name, "the input is quantised in two ways", "quantise the input once")
        return known.name
    name = node.outputs[0]
    walk.values[name] = Value(name, walk.height, walk.width, channels, parameters.scale, parameters.zero_point)
    walk.quantized[key] = name
    return name


def _requantize(walk: _Walk, node: SourceNode, parameters: ActivationParameters, settled: Settled) -> None:
    value = walk.values[settled.value]
    if (value.scale, value.zero_point) != (parameters.scale, parameters.zero_point):
        reason = f"changes the scale of {settled.value} without an operator between"
        raise UnsupportedModel(node.name, reason, "use the same scale and zero point on both sides")
    walk.quantized[node.outputs[0]] = settled.value


def _visit_dequantize(walk: _Walk, node: SourceNode) -> None:
    tensor, result = node.inputs[0], node.outputs[0]
    if tensor in walk.source.constants:
        walk.weights[result] = node
        return
    if tensor not in walk.quantized:
        raise UnsupportedModel(node.name, f"dequantises {tensor}, which is not in the integer path", _QDQ)
    parameters = activation_parameters(node, walk.source.constants)
    value = walk.values[walk.quantized[tensor]]
    if (value.scale, value.zero_point) != (parameters.scale, parameters.zero_point):
        raise UnsupportedModel(node.name, "dequantises with other parameters than it was quantised", _QDQ)
    walk.settled[result] = Settled(value.name)


def _visit_operator(walk: _Walk, node: SourceNode) -> None:
    converter = CONVERTERS.get(node.operator)
    if converter is None:
        known = ", ".join(sorted(CONVERTERS))
        raise UnsupportedModel(node.name, f"operator {node.operator} is not supported", f"supported are {known}")
    if len(node.outputs) != 1:
        raise UnsupportedModel(node.name, f"{node.operator} with {len(node.outputs)} outputs", "use one output")
    context = Context(walk.source, walk.values, walk.settled, walk.pending, walk.weights, walk.notes, walk.operators)
    walk.pending[node.outputs[0]] = converter(context, node)


def _output_value(walk: _Walk, name: str) -> str:
    if name in walk.settled:
        return walk.settled[name].value
    if name in walk.quantized:
        return walk.quantized[name]
    raise UnsupportedModel(name, "this output stays float", "put QuantizeLinear and DequantizeLinear before it")


_QDQ = "quantise every edge between operators (QDQ form)"
_VISITORS: dict[str, Callable[[_Walk, SourceNode], None]] = {
    "QuantizeLinear": _visit_quantize,
    "DequantizeLinear": _visit_dequantize,
}
