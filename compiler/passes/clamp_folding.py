"""Fold ReLU and Clip into the clamp of the operator before them.

Sound because both sides have the same quantisation and rounding is monotone: clamping the byte is clamping
the number. Promise: a Clip is left only where its source has another reader, and then the edge is reported.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.ir import Add, Clip, Conv, Graph, Mul, Operator, Pool, Table
from compiler.passes.base import PassResult, Unfused


class ClampFolding:
    """Clip behind Conv, Add, Mul, Pool or Table becomes part of it."""

    name = "clamp-folding"

    def requires(self, graph: Graph) -> str | None:
        """Every Clip keeps the quantisation."""
        for operator in graph.operators:
            if isinstance(operator, Clip):
                source, result = graph.values[operator.source], graph.values[operator.result]
                if not source.same_quantization(result):
                    return f"{operator.name} changes the quantisation"
        return None

    def run(self, graph: Graph) -> PassResult:
        """One Clip after the other, in order."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for clip in [operator for operator in graph.operators if isinstance(operator, Clip)]:
            reason = _obstacle(graph, clip)
            if reason:
                unfused.append(Unfused(clip.source, clip.name, reason))
                continue
            graph = _folded(graph, clip)
            changes.append(f"{clip.name} folded")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No Clip that could fold is left."""
        left = [op.name for op in graph.operators if isinstance(op, Clip) and not _obstacle(graph, op)]
        return f"{left[0]} could still fold" if left else None


def _obstacle(graph: Graph, clip: Clip) -> str | None:
    producer = graph.producer(clip.source)
    if not isinstance(producer, Conv | Add | Mul | Pool | Table):
        return "no convolution, addition, product, pooling or table makes its source"
    if not graph.private_to(clip.source, clip):
        return f"{clip.source} has another reader"
    return None


def _folded(graph: Graph, clip: Clip) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is clip:
            continue
        origin = (*operator.origin, *clip.origin)
        if operator.result == clip.source and isinstance(operator, Table):
            tables = np.clip(operator.tables, clip.clamp.low, clip.clamp.high)
            operator = replace(operator, result=clip.result, tables=tables, origin=origin)
        elif operator.result == clip.source and isinstance(operator, Conv | Add | Mul | Pool):
            clamp = operator.clamp.narrowed(clip.clamp)
            operator = replace(operator, result=clip.result, clamp=clamp, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)
