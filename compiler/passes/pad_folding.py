"""Fold Pad into the pads of the convolution that reads it.

Sound because both fill with the zero point. An average that counts its padding is the same. Promise: a Pad is left
only where a reader cannot take it, and the edge says why.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import PLAIN, Conv, Graph, Operator, Pad, Pool
from compiler.passes.base import PassResult, Unfused
from contracts.npu.program import PoolMode

_LARGEST = 255


class PadFolding:
    """Pad -> Conv becomes a Conv with larger pads."""

    name = "pad-folding"

    def requires(self, graph: Graph) -> str | None:
        """A Pad keeps the quantisation."""
        for operator in graph.operators:
            if not isinstance(operator, Pad):
                continue
            if not graph.values[operator.source].same_quantization(graph.values[operator.result]):
                return f"{operator.name} changes the quantisation"
        return None

    def run(self, graph: Graph) -> PassResult:
        """Each Pad into all its readers, or none; last first, so that chains add up."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for pad in [op for op in reversed(graph.operators) if isinstance(op, Pad)]:
            reason = _obstacle(graph, pad)
            if reason:
                unfused.append(Unfused(pad.name, ", ".join(op.name for op in graph.consumers(pad.result)), reason))
                continue
            graph = _folded(graph, pad)
            changes.append(f"{pad.name} folded")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No Pad that could fold is left."""
        left = [op.name for op in graph.operators if isinstance(op, Pad) and not _obstacle(graph, op)]
        return f"{left[0]} could still fold" if left else None


def _obstacle(graph: Graph, pad: Pad) -> str | None:
    if graph.is_output(pad.result):
        return "its result is an output of the model"
    for reader in graph.consumers(pad.result):
        if isinstance(reader, Conv):
            residual = reader.residual is not None and reader.residual.value == pad.result
            if residual or reader.read != PLAIN:
                return f"{reader.name} reads through another layout or adds it"
        elif not (isinstance(reader, Pool) and reader.mode == PoolMode.AVERAGE_PADDED and not reader.whole):
            return f"{reader.name} has no pads of that meaning"
        pads = _sum(reader.pads, pad.pads)
        if max(pads) > _LARGEST:
            return f"{reader.name} would have pads above {_LARGEST}"
        spans = [reader.dilations[axis // 2] * (reader.kernel[axis // 2] - 1) + 1 for axis in range(4)]
        if isinstance(reader, Pool) and any(extent >= span for extent, span in zip(pads, spans, strict=True)):
            return f"{reader.name} would have windows of padding alone"
    return None


def _sum(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def _folded(graph: Graph, pad: Pad) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is pad:
            continue
        if isinstance(operator, Conv | Pool) and operator.source == pad.result:
            origin = (*pad.origin, *operator.origin)
            operator = replace(operator, source=pad.source, pads=_sum(pad.pads, operator.pads), origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)
