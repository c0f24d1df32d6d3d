"""Drop operators whose result nobody reads.

Promise: every operator's result is read by a later one, is an output, or is the map that a read window lies in.
"""

from __future__ import annotations

from compiler.ir import Graph, Operator
from compiler.passes.base import PassResult


class DeadCode:
    """Results without readers go, and then what only they read."""

    name = "dead-code"

    def requires(self, graph: Graph) -> str | None:
        """Nothing beyond a checked graph."""
        return None

    def run(self, graph: Graph) -> PassResult:
        """Backwards, so that chains go in one sweep."""
        wanted = {value for _, value in graph.outputs}
        kept: list[Operator] = []
        changes: list[str] = []
        for operator in reversed(graph.operators):
            if operator.result in wanted:
                wanted.update(operator.reads)
                kept.append(operator)
            else:
                changes.append(f"{operator.name} dropped")
        return PassResult(graph.with_operators(kept[::-1]), tuple(reversed(changes)))

    def ensures(self, graph: Graph) -> str | None:
        """Every result is wanted."""
        read = {value for operator in graph.operators for value in operator.reads}
        read.update(value for _, value in graph.outputs)
        dead = [operator.name for operator in graph.operators if operator.result not in read]
        return f"nobody reads the result of {dead[0]}" if dead else None
