"""Fuse additions into the convolution that makes operand a, and residual blocks into one kernel.

First Conv -> Add becomes Conv with a residual (any layout of operand b). Then Conv -> Conv + residual, where
the residual is what the first convolution reads, becomes one Block: one launch. Promise: an Add is left only
where its operand cannot be fused, and the edge says why.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import PLAIN, Add, Block, Conv, Graph, Operator, Residual
from compiler.passes.base import PassResult, Unfused


class ResidualFusion:
    """Additions into convolutions, residual blocks into kernels."""

    name = "residual-fusion"

    def requires(self, graph: Graph) -> str | None:
        """No blocks yet."""
        return "the graph already has blocks" if any(isinstance(op, Block) for op in graph.operators) else None

    def run(self, graph: Graph) -> PassResult:
        """Additions first, then blocks."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for add in [op for op in graph.operators if isinstance(op, Add)]:
            reason = _obstacle(graph, add)
            if reason:
                unfused.append(Unfused(add.a, add.name, reason))
                continue
            graph = _with_residual(graph, add)
            changes.append(f"{add.name} fused")
        graph, blocks = _grouped(graph)
        return PassResult(graph, (*changes, *blocks), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No addition that could fuse is left."""
        left = [op.name for op in graph.operators if isinstance(op, Add) and not _obstacle(graph, op)]
        return f"{left[0]} could still fuse" if left else None


def _obstacle(graph: Graph, add: Add) -> str | None:
    producer = graph.producer(add.a)
    if not isinstance(producer, Conv):
        return "no convolution makes operand a"
    if add.a == add.b or not graph.private_to(add.a, add):
        return f"{add.a} has another reader"
    if producer.residual is not None or add.a_view != PLAIN:
        return f"{producer.name} already adds or the operand is enlarged"
    if _position(graph, add.b) > graph.operators.index(producer):
        return f"{add.b} is made after {producer.name}"
    return None


def _position(graph: Graph, value: str) -> int:
    producer = graph.producer(value)
    return -1 if producer is None else graph.operators.index(producer)


def _with_residual(graph: Graph, add: Add) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is add:
            continue
        if isinstance(operator, Conv) and operator.result == add.a:
            residual = Residual(add.b, add.b_view, add.clamp, add.subtract)
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
