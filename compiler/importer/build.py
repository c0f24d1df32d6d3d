"""The walk: a folded source graph and one input size become integer IR.

A float tensor between DequantizeLinear and QuantizeLinear is *pending*: an operator waiting for the
parameters of its result. QuantizeLinear settles it. Anything that would stay float is an error that names the
edge.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.early_quantization import quantized_early
from compiler.importer.folding import evaluate, foldable
from compiler.importer.operators import CONVERTERS, refusal
from compiler.importer.pending import Held, Pending
from compiler.importer.qoperator import expanded
from compiler.importer.quantization import ActivationParameters, activation_parameters, quantized_constant
from compiler.importer.source import SourceGraph, SourceNode, SourceState
from compiler.importer.tables import rescaling
from compiler.importer.walk import Walk
from compiler.ir import Graph, Operator, State, Value, check
from compiler.limits import LIMITS

_QDQ = "quantise every edge between operators (QDQ form)"


def build_graph(source: SourceGraph, height: int, width: int) -> Graph:
    """The IR for frames of ``height`` x ``width``; raises CompileError."""
    source = quantized_early(expanded(source))
    walk = Walk(source, height, width, ChainMap({}, dict(source.constants)))
    for node in source.nodes:
        if foldable(node, walk.constants):
            walk.constants[node.outputs[0]] = evaluate(node, walk.constants)
        else:
            _VISITORS.get(node.operator, _visit_operator)(walk, node)
    outputs = tuple((name, _output_value(walk, name)) for name in source.outputs)
    made_input = walk.held.get(f"<input>{source.input}")
    if made_input is None:
        raise UnsupportedModel(source.input, "the input is never quantised", "put QuantizeLinear behind the input")
    if any(value == made_input.value for _, value in outputs):
        raise UnsupportedModel(outputs[0][0], "an output is the input itself", "remove this output")
    states = tuple(_state(walk, state, dict(outputs)) for state in source.states)
    operators, notes = tuple(walk.operators), tuple(walk.notes)
    graph = Graph(source.name, made_input.value, outputs, walk.values, operators, notes, states)
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


def _visit_quantize(walk: Walk, node: SourceNode) -> None:
    tensor, result = node.inputs[0], node.outputs[0]
    parameters = activation_parameters(node, walk.constants)
    state = walk.source.state(tensor)
    if state is not None:
        walk.held[result] = Held(_state_value(walk, node, parameters, state, result), None, True, parameters.signed)
    elif tensor == walk.source.input and walk.source.input_type == "float":
        walk.held[result] = Held(_input_value(walk, node, parameters, result), None, True, parameters.signed)
    elif tensor in walk.pending and tensor not in walk.held:
        walk.held[result] = replace(walk.settle(result, walk.pending[tensor], parameters), integer=True)
    elif tensor in walk.held:
        walk.held[result] = replace(_requantized(walk, node, parameters), integer=True)
    else:
        raise UnsupportedModel(node.name, f"quantises {tensor}, which is not in the integer path", _QDQ)


def _input_value(walk: Walk, node: SourceNode, parameters: ActivationParameters, name: str) -> str:
    shape = walk.source.input_shape
    channels = shape[1]
    if channels is None or not 1 <= channels <= LIMITS.channels or shape[0] not in (None, 1):
        reason = f"input shape {list(shape)}"
        raise UnsupportedModel(walk.source.input, reason, "use batch 1 and a fixed number of channels")
    for fixed, wanted in ((shape[2], walk.height), (shape[3], walk.width)):
        if fixed is not None and fixed != wanted:
            reason = f"profile {walk.height}x{walk.width} against the fixed input {shape[2]}x{shape[3]}"
            raise BadProfile(walk.source.input, reason, "give the model's own size or export dynamic axes")
    value = Value(name, walk.height, walk.width, channels, parameters.scale, parameters.zero_point)
    return _given(walk, node, walk.source.input, value)


def _state_value(walk: Walk, node: SourceNode, parameters: ActivationParameters, state: SourceState, name: str) -> str:
    height, width = state.height.of(walk.height), state.width.of(walk.width)
    if height is None or width is None:
        reason = f"state {state.name} is a part of {walk.height}x{walk.width} that does not divide it"
        raise BadProfile(node.name, reason, "give a profile with divisible extents")
    value = Value(name, height, width, state.channels, parameters.scale, parameters.zero_point)
    return _given(walk, node, state.name, value)


def _given(walk: Walk, node: SourceNode, tensor: str, value: Value) -> str:
    """The one value of a tensor that is given, not computed."""
    key = f"<input>{tensor}"
    if key in walk.held:
        known = walk.values[walk.held[key].value]
        if not known.same_quantization(value):
            raise UnsupportedModel(node.name, f"{tensor} is quantised in two ways", "quantise the input once")
        return known.name
    walk.values[value.name] = value
    walk.held[key] = Held(value.name)
    return value.name


def _state(walk: Walk, state: SourceState, outputs: Mapping[str, str]) -> State:
    """A state with what follows it: the same form and quantisation, computed in the frame."""
    held = walk.held.get(f"<input>{state.name}")
    if held is None:
        raise UnsupportedModel(state.name, "the state is never quantised", "put QuantizeLinear behind the state")
    now, then = walk.values[held.value], walk.values[outputs[state.output]]
    if now.shape != then.shape or not now.same_quantization(then) or now.name == then.name:
        reason = f"{state.output} is {then.shape} of scale {then.scale:.6g}, the state {now.shape}, {now.scale:.6g}"
        raise UnsupportedModel(state.name, reason, "give both the same shape and quantisation, and compute the output")
    return State(state.name, now.name, state.output)


def _requantized(walk: Walk, node: SourceNode, parameters: ActivationParameters) -> Held:
    """The value itself when the parameters agree, else a table behind it."""
    held = walk.held[node.inputs[0]]
    value = walk.values[held.value]
    if held.integer:
        raise UnsupportedModel(node.name, f"quantises {node.inputs[0]}, which is quantised already", _QDQ)
    if (value.scale, value.zero_point) == (parameters.scale, parameters.zero_point):
        return replace(held, signed=parameters.signed)
    result = replace(value, name=node.outputs[0], scale=parameters.scale, zero_point=parameters.zero_point, window=None)
    walk.emit(result, rescaling(node.name, value, result))
    return Held(result.name, held.axes, signed=parameters.signed)


def _visit_dequantize(walk: Walk, node: SourceNode) -> None:
    tensor, result = node.inputs[0], node.outputs[0]
    if tensor in walk.constants:
        walk.weights[result] = quantized_constant(node, walk.constants)
        return
    if tensor == walk.source.input and walk.source.input_type != "float":
        signed = walk.source.input_type == "int8"
        parameters = activation_parameters(node, walk.constants, signed=signed)
        if parameters.signed != signed:
            raise UnsupportedModel(node.name, "the zero point has another type than the input", "use one type")
        walk.held[result] = Held(_input_value(walk, node, parameters, tensor), None, False, signed)
        return
    held = walk.held.get(tensor)
    if held is None or not held.integer:
        raise UnsupportedModel(node.name, f"dequantises {tensor}, which is not in the integer path", _QDQ)
    parameters = activation_parameters(node, walk.constants, signed=held.signed)
    value = walk.values[held.value]
    if (value.scale, value.zero_point) != (parameters.scale, parameters.zero_point):
        raise UnsupportedModel(node.name, "dequantises with other parameters than it was quantised", _QDQ)
    walk.held[result] = replace(held, integer=False)


def _visit_shape(walk: Walk, node: SourceNode) -> None:
    name = node.inputs[0] if node.inputs else ""
    held = walk.seen(name)
    if held is not None:
        value = walk.values[held.value]
        extents = held.axes.shape if held.axes else (1, value.channels, value.height, value.width)
    elif name == walk.source.input:
        extents = (1, walk.source.input_shape[1] or 0, walk.height, walk.width)
    elif name in walk.pending:
        shape, axes = walk.pending[name].shape, walk.pending[name].axes
        extents = axes.shape if axes else (1, shape.channels, shape.height, shape.width)
    else:
        raise UnsupportedModel(node.name, f"the shape of {name} is not known", "export with static shapes")
    end = node.integer("end", len(extents))
    walk.constants[node.outputs[0]] = np.asarray(extents[node.integer("start", 0) : end], np.int64)


def _visit_operator(walk: Walk, node: SourceNode) -> None:
    converter = CONVERTERS.get(node.operator)
    if converter is None:
        raise refusal(node)
    if not node.outputs:
        raise UnsupportedModel(node.name, f"{node.operator} without an output", "export the model again")
    integers = [walk.held[name] for name in node.inputs if name in walk.held and walk.held[name].integer]
    made = converter(walk, node)
    if made is None:
        return
    if len([name for name in node.outputs if name]) != 1:
        raise UnsupportedModel(node.name, f"{node.operator} with {len(node.outputs)} outputs", "use one output")
    walk.pending[node.outputs[0]] = made
    if integers:
        _settle_integers(walk, node, made, integers[0])


def _settle_integers(walk: Walk, node: SourceNode, made: Pending, operand: Held) -> None:
    """An operator straight on integer tensors has to move bytes only: there is no scale to go by."""
    if made.keeps is None or made.ranges:
        reason = f"{node.operator} on integer tensors has no scale of its own"
        raise UnsupportedModel(node.name, reason, "put DequantizeLinear before and QuantizeLinear behind it")
    held = walk.seen(node.outputs[0])
    assert held is not None
    walk.held[node.outputs[0]] = replace(held, integer=True, signed=operand.signed)


def _output_value(walk: Walk, name: str) -> str:
    held = walk.seen(name)
    if held is None:
        raise UnsupportedModel(name, "this output stays float", "put QuantizeLinear and DequantizeLinear before it")
    value = walk.values[held.value]
    if held.axes is None or value.height * value.width == 1:
        return held.value
    return walk.operand(SourceNode(name, "Output", (name,), (), {}), 0).name


_VISITORS: Mapping[str, Callable[[Walk, SourceNode], None]] = {
    "QuantizeLinear": _visit_quantize,
    "DequantizeLinear": _visit_dequantize,
    "Shape": _visit_shape,
}
