"""Fold what is known before the frame: constants through shape operators, float weights through
QuantizeLinear.

Works on the source graph, before import. Also removes Identity and Dropout on activations. DequantizeLinear
of a constant stays: the importer wants the integers. Promise: no foldable node is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.importer.folding import evaluate, foldable
from compiler.importer.source import SourceGraph, SourceNode


@dataclass(frozen=True)
class SourceResult:
    """The folded graph and one line for each change."""

    graph: SourceGraph
    changes: tuple[str, ...]


class ConstantFolding:
    """Evaluate constant nodes, drop identities."""

    name = "constant-folding"

    def requires(self, graph: SourceGraph) -> str | None:
        """A non-empty graph."""
        return None if graph.nodes else "the graph has no nodes"

    def run(self, graph: SourceGraph) -> SourceResult:
        """Fold in execution order, so chains fold in one go."""
        constants = dict(graph.constants)
        renamed: dict[str, str] = {}
        kept: list[SourceNode] = []
        changes: list[str] = []
        for node in graph.nodes:
            node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
            if foldable(node, constants):
                constants[node.outputs[0]] = evaluate(node, constants)
                changes.append(f"folded {node.operator} {node.name}")
            elif _is_identity(node) and node.outputs[0] not in graph.outputs:
                renamed[node.outputs[0]] = node.inputs[0]
                changes.append(f"removed {node.operator} {node.name}")
            else:
                kept.append(node)
        return SourceResult(replace(graph, nodes=tuple(kept), constants=constants), tuple(changes))

    def ensures(self, graph: SourceGraph) -> str | None:
        """No constant work is left."""
        left = next((node.name for node in graph.nodes if foldable(node, graph.constants)), None)
        return f"{left} is still constant" if left else None


def _is_identity(node: SourceNode) -> bool:
    return node.operator in ("Identity", "Dropout") and bool(node.inputs and node.outputs)
