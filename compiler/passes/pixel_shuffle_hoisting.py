"""Hoist PixelShuffle into the convolution before it, and nearest enlargement into the addition behind it.

The tail kernel writes its result to final addresses; the anchor is read from the small image with repeated
addresses. Promise: such a Move is left only where its neighbour cannot take it, and the edge says why.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import PLAIN, Add, Conv, Graph, Move, Operator
from compiler.passes.base import PassResult, Unfused
from contracts.npu import Layout


class PixelShuffleHoisting:
    """Conv -> Move(D2S) becomes one Conv; Move(NEAREST) -> Add becomes an Add that reads enlarged."""

    name = "pixel-shuffle-hoisting"

    def requires(self, graph: Graph) -> str | None:
        """Runs before additions are fused: no convolution has a residual yet."""
        fused = [op.name for op in graph.operators if isinstance(op, Conv) and op.residual is not None]
        return f"{fused[0]} already has a residual" if fused else None

    def run(self, graph: Graph) -> PassResult:
        """Each Move on its own."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for move in [op for op in graph.operators if isinstance(op, Move)]:
            reason = _obstacle(graph, move)
            if reason is None:
                graph = _hoisted(graph, move) if move.write.layout == Layout.D2S else _read_enlarged(graph, move)
                changes.append(f"{move.name} hoisted")
            elif reason:
                unfused.append(Unfused(move.source, move.name, reason))
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No Move that could fold is left."""
        left = [op.name for op in graph.operators if isinstance(op, Move) and _obstacle(graph, op) is None]
        return f"{left[0]} could still fold" if left else None


def _obstacle(graph: Graph, move: Move) -> str | None:
    """None when the move folds, a reason when it does not, empty when it is none of this pass's business."""
    if move.write.layout == Layout.D2S and move.read == PLAIN:
        producer = graph.producer(move.source)
        if not isinstance(producer, Conv):
            return "no convolution makes its source"
        if not graph.private_to(move.source, move):
            return f"{move.source} has another reader"
        return None if producer.write == PLAIN else f"{producer.name} already writes through another layout"
    if move.read.layout == Layout.NEAREST and move.write == PLAIN:
        if graph.is_output(move.result):
            return "its result is an output of the model"
        other = next((op.name for op in graph.consumers(move.result) if not _can_read_enlarged(op, move)), None)
        return f"{other} cannot read an enlarged image" if other else None
    return ""


def _can_read_enlarged(operator: Operator, move: Move) -> bool:
    if not isinstance(operator, Add) or operator.a == operator.b:
        return False
    view = operator.a_view if operator.a == move.result else operator.b_view
    return view == PLAIN


def _hoisted(graph: Graph, move: Move) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is move:
            continue
        if isinstance(operator, Conv) and operator.result == move.source:
            origin = (*operator.origin, *move.origin)
            operator = replace(operator, result=move.result, write=move.write, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)


def _read_enlarged(graph: Graph, move: Move) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is move:
            continue
        if isinstance(operator, Add) and move.result in operator.reads:
            origin = (*move.origin, *operator.origin)
            if operator.a == move.result:
                operator = replace(operator, a=move.source, a_view=move.read, origin=origin)
            else:
                operator = replace(operator, b=move.source, b_view=move.read, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)
