"""Fuse additions into the convolution that makes one of their operands, and residual blocks into one kernel.

First Conv -> Add becomes Conv with a residual (any layout of the other operand). The order of the operands stays:
it decides ties (`docs/reference/arithmetic.md`). Then Conv -> Conv + residual, where the residual is what the first
convolution reads, becomes one Block: one launch. Promise: an Add is left only where neither operand can be fused,
and the edge says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.ir import PLAIN, Add, Block, Conv, Graph, Operator, Residual, View
from compiler.passes.base import PassResult, Unfused


@dataclass(frozen=True)
class _Side:
    """One operand of an addition as a convolution would make it, and the other as its residual."""

    own: str
    own_view: View
    other: str
    other_view: View
    other_first: bool


class ResidualFusion:
    """Additions into convolutions, residual blocks into kernels. ``residual_first``: the device knows sums whose
    second operand is the convolution's result; old drivers do not.
    """

    name = "residual-fusion"

    def __init__(self, *, residual_first: bool = True) -> None:
        self._residual_first = residual_first

    def requires(self, graph: Graph) -> str | None:
        """No blocks yet."""
        return "the graph already has blocks" if any(isinstance(op, Block) for op in graph.operators) else None

    def run(self, graph: Graph) -> PassResult:
        """Additions first, then blocks."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for add in [op for op in graph.operators if isinstance(op, Add)]:
            side, reason = self._side(graph, add)
            if reason:
                unfused.append(Unfused(side.own, add.name, reason))
                continue
            graph = _with_residual(graph, add, side)
            changes.append(f"{add.name} fused")
        graph, blocks = _grouped(graph)
        return PassResult(graph, (*changes, *blocks), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No addition that could fuse is left."""
        left = [op.name for op in graph.operators if isinstance(op, Add) and not self._side(graph, op)[1]]
        return f"{left[0]} could still fuse" if left else None

    def _side(self, graph: Graph, add: Add) -> tuple[_Side, str | None]:
        """The operand to fuse into, and what is in the way: of the two the one that is made later."""
        sides = (
            _Side(add.a, add.a_view, add.b, add.b_view, other_first=False),
            _Side(add.b, add.b_view, add.a, add.a_view, other_first=True),
        )
        made = [isinstance(graph.producer(side.own), Conv) for side in sides]
        if not any(made):
            return sides[0], "no convolution makes an operand"
        later = _position(graph, add.b) > _position(graph, add.a) if all(made) else made[1]
        side = sides[later]
        if side.other_first and not self._residual_first:
            return side, "the driver that is asked for adds the result of a convolution first"
        return side, _obstacle(graph, add, side)


def _obstacle(graph: Graph, add: Add, side: _Side) -> str | None:
    producer = graph.producer(side.own)
    assert isinstance(producer, Conv)
    if add.a == add.b or not graph.private_to(side.own, add):
        return f"{side.own} has another reader"
    if producer.residual is not None or side.own_view != PLAIN:
        return f"{producer.name} already adds or the operand is enlarged"
    if _position(graph, side.other) > graph.operators.index(producer):
        return f"{side.other} is made after {producer.name}"
    return None


def _position(graph: Graph, value: str) -> int:
    producer = graph.producer(value)
    return -1 if producer is None else graph.operators.index(producer)


def _with_residual(graph: Graph, add: Add, side: _Side) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is add:
            continue
        if isinstance(operator, Conv) and operator.result == side.own:
            residual = Residual(side.other, side.other_view, add.clamp, add.subtract, side.other_first)
            origin = (*operator.origin, *add.origin)
            operator = replace(operator, result=add.result, residual=residual, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)


def _grouped(graph: Graph) -> tuple[Graph, list[str]]:
    operators: list[Operator] = []
    changes: list[str] = []
    for operator in graph.operators:
        first = operators[-1] if operators else None
        if isinstance(operator, Conv) and isinstance(first, Conv) and _is_block(graph, first, operator):
            operators[-1] = Block(f"{first.name}+{operator.name}", (first, operator))
            changes.append(f"{first.name} and {operator.name} grouped")
        else:
            operators.append(operator)
    return graph.with_operators(operators), changes


def _is_block(graph: Graph, first: Conv, second: Conv) -> bool:
    if second.residual is None or first.residual is not None or first.write != PLAIN or first.read != PLAIN:
        return False
    feeds = second.source == first.result and graph.private_to(first.result, second)
    return feeds and second.residual.value == first.source and second.residual.view == PLAIN
