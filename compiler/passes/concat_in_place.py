"""Concat in place: who makes an operand writes it straight into the joined map.

A Concat is imported as copies into windows of its result. Where the operand's maker can write the window itself, the
copy goes: history and current features are joined without moving a byte, and the convolution that reads the join
reads one map. Promise: a copy into a join is left only where the operand cannot live there, and the edge says why.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import PLAIN, Block, Graph, Join, Move, Operator, Part
from compiler.passes.base import PassResult, Unfused


class ConcatInPlace:
    """Producer -> Move into a window becomes a producer of the window."""

    name = "concat-in-place"

    def requires(self, graph: Graph) -> str | None:
        """Runs before blocks are made."""
        return "the graph already has blocks" if any(isinstance(op, Block) for op in graph.operators) else None

    def run(self, graph: Graph) -> PassResult:
        """Each copy on its own, in order."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for move in _copies(graph):
            reason = _obstacle(graph, move)
            if reason:
                unfused.append(Unfused(move.source, move.name, reason))
                continue
            graph = _in_place(graph, move)
            changes.append(f"{move.source} made in place")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No copy that could go is left."""
        left = [move.name for move in _copies(graph) if not _obstacle(graph, move)]
        return f"{left[0]} could still go" if left else None


def _copies(graph: Graph) -> list[Move]:
    joined = {source for operator in graph.operators if isinstance(operator, Join) for source in operator.sources}
    moves = [op for op in graph.operators if isinstance(op, Move) and op.result in joined]
    return [move for move in moves if move.read == PLAIN and move.write == PLAIN]


def _obstacle(graph: Graph, move: Move) -> str | None:
    producer = graph.producer(move.source)
    if producer is None:
        return "the operand is the input of the model"
    if isinstance(producer, Part) or graph.values[move.source].window is not None:
        return f"{move.source} already lives in another map"
    if graph.is_output(move.source):
        return f"{move.source} is an output of the model"
    return None


def _in_place(graph: Graph, move: Move) -> Graph:
    """The source takes the window's place; all its readers read the window."""
    values = dict(graph.values)
    values[move.source] = replace(values[move.source], window=values[move.result].window)
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is move:
            continue
        if isinstance(operator, Join) and move.result in operator.sources:
            sources = tuple(move.source if name == move.result else name for name in operator.sources)
            operator = replace(operator, sources=sources)
        operators.append(operator)
    return replace(graph, values=values).with_operators(operators)
