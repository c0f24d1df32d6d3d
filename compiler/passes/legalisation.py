"""What is left becomes something that the NPU has a command for.

Clip: a table. Pad: a depthwise 1x1 convolution with pads. Permute: a 1x1 convolution with one weight 1 in each row.
An output that is a window of another map: a copy. None of them changes a byte beyond its own meaning. Promise: no
Clip, Pad or Permute is left, and every output has bytes of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer.strided import identity
from compiler.ir import Clip, Conv, Graph, Move, Operator, Pad, Permute, Table
from compiler.limits import LIMITS
from compiler.passes.base import PassResult


class Legalisation:
    """Clip, Pad, Permute and windowed outputs."""

    name = "legalisation"

    def requires(self, graph: Graph) -> str | None:
        """A Clip keeps the quantisation."""
        for op in graph.operators:
            if isinstance(op, Clip) and not graph.values[op.source].same_quantization(graph.values[op.result]):
                return f"{op.name} changes the quantisation"
        return None

    def run(self, graph: Graph) -> PassResult:
        """One operator after the other, then the outputs."""
        changes: list[str] = []
        operators: list[Operator] = []
        for operator in graph.operators:
            legal = _legal(graph, operator)
            if legal is not operator:
                changes.append(f"{operator.name} became a {type(legal).__name__}")
            operators.append(legal)
        graph = graph.with_operators(operators)
        graph, copied = _outputs(graph)
        return PassResult(graph, (*changes, *copied))

    def ensures(self, graph: Graph) -> str | None:
        """Only operators with a command, only outputs with bytes of their own."""
        left = [operator.name for operator in graph.operators if isinstance(operator, Clip | Pad | Permute)]
        if left:
            return f"{left[0]} has no command"
        inside = [name for name, value in graph.outputs if graph.values[value].window is not None]
        return f"output {inside[0]} is a window" if inside else None


def _legal(graph: Graph, operator: Operator) -> Operator:
    if isinstance(operator, Clip):
        table = np.clip(np.arange(256), operator.clamp.low, operator.clamp.high).astype(np.uint8)
        return Table(operator.name, operator.source, operator.result, table[None, :], operator.origin)
    if isinstance(operator, Pad):
        source, result = graph.values[operator.source], graph.values[operator.result]
        return identity(operator.name, source, result, operator.pads, (1, 1), operator.origin)
    if isinstance(operator, Permute):
        return _selection(graph, operator)
    return operator


def _selection(graph: Graph, permute: Permute) -> Conv:
    source, result = graph.values[permute.source], graph.values[permute.result]
    outputs = len(permute.order)
    if max(outputs, source.channels) > LIMITS.channels:
        reason = f"an order of {source.channels} channels that folds into no convolution"
        raise UnsupportedModel(permute.name, reason, f"use up to {LIMITS.channels} channels")
    weights = np.zeros((outputs, source.channels, 1, 1), np.int8)
    weights[np.arange(outputs), list(permute.order)] = 1
    plain = identity(permute.name, result, result, (0, 0, 0, 0), (1, 1), permute.origin)
    return replace(plain, source=source.name, weights=weights, groups=1)


def _outputs(graph: Graph) -> tuple[Graph, list[str]]:
    """Copies of outputs that are windows."""
    values, operators = dict(graph.values), list(graph.operators)
    outputs: list[tuple[str, str]] = []
    changes: list[str] = []
    for name, value in graph.outputs:
        if values[value].window is not None:
            own = f"{value}.own"
            if own not in values:
                values[own] = replace(values[value], name=own, window=None)
                operators.append(Move(f"{name}.own", value, own, origin=(name,)))
                changes.append(f"output {name} copied")
            value = own
        outputs.append((name, value))
    if not changes:
        return graph, []
    return replace(graph, values=values, outputs=tuple(outputs)).with_operators(operators), changes
