"""The IR as text: one line for each value maker. Golden tests compare it; people read it in reports."""

from __future__ import annotations

from compiler.ir import Add, Block, Clamp, Clip, Conv, Graph, Move, Operator, Value, View
from contracts.npu import Layout


def print_graph(graph: Graph) -> str:
    """The whole graph."""
    lines = [f"graph {graph.name}", f"  input {_typed(graph.values[graph.input])}"]
    for operator in graph.operators:
        lines += _lines(graph, operator, "  ")
    lines += [f"  output {name} = %{value}" for name, value in graph.outputs]
    return "\n".join(lines) + "\n"


def _lines(graph: Graph, operator: Operator, indent: str) -> list[str]:
    if isinstance(operator, Block):
        body = [line for conv in operator.body for line in _lines(graph, conv, indent + "  ")]
        return [f"{indent}block {operator.name}", *body]
    return [f"{indent}{_typed(graph.values[operator.result])} = {_right(operator)}"]


def _right(operator: Conv | Add | Move | Clip) -> str:
    if isinstance(operator, Conv):
        return _conv(operator)
    if isinstance(operator, Add):
        a, b = f"%{operator.a}{_view(operator.a_view)}", f"%{operator.b}{_view(operator.b_view)}"
        return f"add {a}, {b}{_clamp(operator.clamp)}"
    if isinstance(operator, Move):
        return f"move %{operator.source}{_view(operator.read)} ->{_view(operator.write) or ' nhwc'}"
    return f"clip %{operator.source}{_clamp(operator.clamp)}"


def _conv(conv: Conv) -> str:
    outputs, inputs, height, width = conv.weights.shape
    text = f"conv %{conv.source}{_view(conv.read)} {height}x{width} {inputs * conv.groups}->{outputs}"
    text += f" pads={','.join(map(str, conv.pads))}"
    if conv.strides != (1, 1):
        text += f" strides={conv.strides[0]},{conv.strides[1]}"
    if conv.dilations != (1, 1):
        text += f" dilations={conv.dilations[0]},{conv.dilations[1]}"
    if conv.groups != 1:
        text += f" groups={conv.groups}"
    text += _clamp(conv.clamp)
    if conv.write.layout != Layout.NHWC:
        text += f" ->{_view(conv.write)}"
    if conv.residual is not None:
        residual = conv.residual
        text += f" scale={conv.scale:.6g} zp={conv.zero_point} + %{residual.value}{_view(residual.view)}"
        text += _clamp(residual.clamp)
    return text


def _typed(value: Value) -> str:
    extents = ",".join(map(str, value.shape))
    return f"%{value.name} : u8[{extents}] scale={value.scale:.6g} zp={value.zero_point}"


def _view(view: View) -> str:
    return "" if view.layout == Layout.NHWC else f" {view.layout.name.lower()}({view.block})"


def _clamp(clamp: Clamp) -> str:
    return "" if clamp == Clamp() else f" clamp={clamp.low}..{clamp.high}"
