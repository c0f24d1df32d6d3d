"""Quantise the frame before it is moved, not behind.

Tools leave Reshape, SpaceToDepth or a nearest Resize of the frame in float and quantise what comes out. Moving bytes
and quantising them commute, so the QuantizeLinear goes to the input. Nothing is done unless every path from the input
through moves ends in QuantizeLinear with the same parameters: a float edge stays an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.importer.source import Array, SourceGraph, SourceNode

_MOVES = frozenset(
    {
        "DepthToSpace",
        "Flatten",
        "Gather",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


def quantized_early(source: SourceGraph) -> SourceGraph:
    """The same graph with Q and DQ right behind the input where moves stand between."""
    if source.input_type != "float":
        return source
    quantizers = _behind_moves(source)
    if not quantizers or any(not _same(quantizers[0], other, source.constants) for other in quantizers):
        return source
    first = quantizers[0]
    early = f"{source.input}<early>"
    parameters = first.inputs[1:]
    pair = (
        replace(first, inputs=(source.input, *parameters), outputs=(f"{early}q",)),
        SourceNode(first.name, "DequantizeLinear", (f"{early}q", *parameters), (early,), {}),
    )
    moved = tuple(_reading(node, source.input, early) if _is_move(node) else node for node in source.nodes)
    return replace(source, nodes=(*pair, *moved))


def _behind_moves(source: SourceGraph) -> list[SourceNode]:
    """The quantisers of the input, at least one of them behind a move; empty when another reader takes it as float."""
    moved = {source.input}
    quantizers: list[SourceNode] = []
    for node in source.nodes:
        if not moved.intersection(node.inputs) or node.operator == "Shape":
            continue
        if _is_move(node) and node.inputs[0] in moved:
            moved.update(node.outputs)
        elif node.operator == "QuantizeLinear":
            quantizers.append(node)
        else:
            return []
    if moved.intersection(source.outputs) or len(moved) == 1:
        return []
    return quantizers


def _is_move(node: SourceNode) -> bool:
    return node.operator in _MOVES or (
        node.operator == "Resize" and node.attributes.get("mode", "nearest") == "nearest"
    )


def _same(a: SourceNode, b: SourceNode, constants: Mapping[str, Array]) -> bool:
    if len(a.inputs) != len(b.inputs) or a.attributes != b.attributes:
        return False
    pairs = [(constants.get(one), constants.get(other)) for one, other in zip(a.inputs[1:], b.inputs[1:], strict=True)]
    return all(
        one is not None and other is not None and one.dtype == other.dtype and np.array_equal(one, other)
        for one, other in pairs
    )


def _reading(node: SourceNode, old: str, new: str) -> SourceNode:
    return replace(node, inputs=tuple(new if name == old else name for name in node.inputs))
