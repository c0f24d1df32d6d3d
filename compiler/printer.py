"""The IR as text: one line for each value maker. Golden tests compare it; people read it in reports."""

from __future__ import annotations

import zlib

from compiler.ir import (
    Add,
    Block,
    Clamp,
    Clip,
    Conv,
    Graph,
    Host,
    Join,
    Move,
    Mul,
    Operator,
    Pad,
    Part,
    Permute,
    Pool,
    Resize,
    Simple,
    Table,
    Value,
    View,
)
from contracts.npu import Layout


def print_graph(graph: Graph) -> str:
    """The whole graph."""
    lines = [f"graph {graph.name}", f"  input {_typed(graph.values[graph.input])}"]
    lines += [
        f"  state {state.name} {_typed(graph.values[state.value])}, then {state.output}" for state in graph.states
    ]
    for operator in graph.operators:
        lines += _lines(graph, operator, "  ")
    lines += [f"  output {name} = %{value}" for name, value in graph.outputs]
    return "\n".join(lines) + "\n"


def _lines(graph: Graph, operator: Operator, indent: str) -> list[str]:
    if isinstance(operator, Block):
        body = [line for conv in operator.body for line in _lines(graph, conv, indent + "  ")]
        return [f"{indent}block {operator.name}", *body]
    where = " on host" if getattr(operator, "host", "") else ""
    return [f"{indent}{_typed(graph.values[operator.result])} = {_right(operator)}{where}"]


def _right(operator: Simple) -> str:
    if isinstance(operator, Conv):
        return _conv(operator)
    if isinstance(operator, Add):
        a, b = f"%{operator.a}{_view(operator.a_view)}", f"%{operator.b}{_view(operator.b_view)}"
        return f"{'sub' if operator.subtract else 'add'} {a}, {b}{_clamp(operator.clamp)}"
    if isinstance(operator, Move):
        return f"move %{operator.source}{_view(operator.read)} ->{_view(operator.write) or ' nhwc'}"
    if isinstance(operator, Clip):
        return f"clip %{operator.source}{_clamp(operator.clamp)}"
    return _vector(operator)


def _vector(operator: Table | Mul | Pool | Resize | Pad | Permute | Join | Part | Host) -> str:
    if isinstance(operator, Table):
        return f"table %{operator.source} x{len(operator.tables)} crc={zlib.crc32(operator.tables.tobytes()):08x}"
    if isinstance(operator, Mul):
        return f"mul %{operator.a}, %{operator.b}{_clamp(operator.clamp)}"
    if isinstance(operator, Pool):
        return _pool(operator)
    if isinstance(operator, Resize):
        kind = "linear" if operator.linear else f"nearest {operator.rounding.name.lower()}"
        return f"resize %{operator.source} {kind} {operator.transformation.name.lower()}"
    if isinstance(operator, Host):
        operands = ", ".join(f"%{value}" for value in operator.reads)
        return f"host {operator.function.name.lower()} {operands}{_clamp(operator.clamp)}"
    if isinstance(operator, Pad):
        return f"pad %{operator.source} pads={_list(operator.pads)}"
    if isinstance(operator, Permute):
        return f"permute %{operator.source} order={_list(operator.order)}"
    if isinstance(operator, Join):
        return f"join {', '.join(f'%{value}' for value in operator.sources)}"
    return f"part %{operator.source}"


def _pool(pool: Pool) -> str:
    extent = "whole" if pool.whole else f"{pool.kernel[0]}x{pool.kernel[1]}"
    text = f"pool %{pool.source} {pool.mode.name.lower()} {extent}"
    if not pool.whole:
        text += f" pads={_list(pool.pads)} strides={_list(pool.strides)}"
    if pool.dilations != (1, 1):
        text += f" dilations={_list(pool.dilations)}"
    return text + _clamp(pool.clamp)


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


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
        sign = "-" if residual.subtract else "+"
        other = f"%{residual.value}{_view(residual.view)}"
        sum_of = f"right of {other} {sign}" if residual.first else f"{sign} {other}"
        text += f" scale={conv.scale:.6g} zp={conv.zero_point} {sum_of}"
        text += _clamp(residual.clamp)
    return text


def _typed(value: Value) -> str:
    extents = ",".join(map(str, value.shape))
    text = f"%{value.name} : u8[{extents}] scale={value.scale:.6g} zp={value.zero_point}"
    if value.window is None:
        return text
    at = _list((value.window.row, value.window.col, value.window.channel))
    return f"{text} in %{value.window.parent} at {at}"


def _view(view: View) -> str:
    return "" if view.layout == Layout.NHWC else f" {view.layout.name.lower()}({view.block})"


def _clamp(clamp: Clamp) -> str:
    return "" if clamp == Clamp() else f" clamp={clamp.low}..{clamp.high}"
