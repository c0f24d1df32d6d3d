"""Sink Space-to-Depth into the convolution that reads it: the kernel gathers the frame, nothing is stored.

Promise: a Space-to-Depth is left only where a reader other than a plain convolution needs it, and the edge
says so.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import PLAIN, Conv, Graph, Move, Operator
from compiler.passes.base import PassResult, Unfused
from contracts.npu import Layout


class SpaceToDepthSinking:
    """Move(S2D) -> Conv becomes Conv with an S2D read."""

    name = "space-to-depth-sinking"

    def requires(self, graph: Graph) -> str | None:
        """Nothing beyond a checked graph."""
        return None

    def run(self, graph: Graph) -> PassResult:
        """Each Move into all its readers, or none."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for move in [op for op in graph.operators if _is_space_to_depth(op)]:
            assert isinstance(move, Move)
            reason = _obstacle(graph, move)
            if reason:
                unfused.append(Unfused(move.name, ", ".join(op.name for op in graph.consumers(move.result)), reason))
                continue
            graph = _sunk(graph, move)
            changes.append(f"{move.name} sunk")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No Space-to-Depth that could sink is left."""
        left = [op for op in graph.operators if isinstance(op, Move) and _is_space_to_depth(op)]
        open_moves = [move.name for move in left if not _obstacle(graph, move)]
        return f"{open_moves[0]} could still sink" if open_moves else None


def _is_space_to_depth(operator: Operator) -> bool:
    return isinstance(operator, Move) and operator.read.layout == Layout.S2D and operator.write == PLAIN


def _obstacle(graph: Graph, move: Move) -> str | None:
    if graph.is_output(move.result):
        return "its result is an output of the model"
    for reader in graph.consumers(move.result):
        if not isinstance(reader, Conv):
            return f"{reader.name} is no convolution"
        if reader.read != PLAIN or (reader.residual is not None and reader.residual.value == move.result):
            return f"{reader.name} already reads through another layout"
    return None


def _sunk(graph: Graph, move: Move) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is move:
            continue
        if isinstance(operator, Conv) and operator.source == move.result:
            origin = (*move.origin, *operator.origin)
            operator = replace(operator, source=move.source, read=move.read, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)
