"""Tables that follow each other become one: ``second[first[x]]``.

Also ReLU or Clip behind a table, which clamp folding turned into its entries. Promise: a table reads another table's
result only where that result has a further reader, is an output or lies in a window, and then the edge is reported.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.importer.tables import composed
from compiler.ir import Graph, Operator, Table
from compiler.passes.base import PassResult, Unfused


class TableFusion:
    """Table -> Table becomes one Table."""

    name = "table-fusion"

    def requires(self, graph: Graph) -> str | None:
        """Tables have 256 entries, one table or one for each channel."""
        for operator in graph.operators:
            if isinstance(operator, Table):
                channels = graph.values[operator.source].channels
                if operator.tables.shape not in ((1, 256), (channels, 256)):
                    return f"{operator.name} has tables of shape {operator.tables.shape}"
        return None

    def run(self, graph: Graph) -> PassResult:
        """Front to back, so that long chains collapse."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for name in [operator.name for operator in graph.operators if isinstance(operator, Table)]:
            second = next(op for op in graph.operators if isinstance(op, Table) and op.name == name)
            first = graph.producer(second.source)
            if not isinstance(first, Table):
                continue
            reason = _obstacle(graph, first, second)
            if reason:
                unfused.append(Unfused(first.name, second.name, reason))
                continue
            graph = _fused(graph, first, second)
            changes.append(f"{first.name} and {second.name} composed")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No pair that could fuse is left."""
        for second in graph.operators:
            first = graph.producer(second.source) if isinstance(second, Table) else None
            if isinstance(second, Table) and isinstance(first, Table) and not _obstacle(graph, first, second):
                return f"{second.name} could still fuse"
        return None


def _obstacle(graph: Graph, first: Table, second: Table) -> str | None:
    if not graph.private_to(first.result, second):
        return f"{first.result} has another reader"
    if graph.values[first.result].window is not None:
        return f"{first.result} is part of another map"
    return None


def _fused(graph: Graph, first: Table, second: Table) -> Graph:
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is first:
            continue
        if operator is second:
            tables = composed(first.tables, second.tables)
            operator = replace(second, source=first.source, tables=tables, origin=(*first.origin, *second.origin))
        operators.append(operator)
    return graph.with_operators(operators)
