"""Drop operators whose result nobody reads.

A Concat keeps only the operands of which somebody reads a byte, in the joined map or in a slice of it. Promise: every
operator's result is read by a later one, is an output, or is the map that a read window lies in.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import STRUCTURAL, Graph, Join, Operator, share_bytes
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
        seen = set(wanted)
        kept: list[Operator] = []
        changes: list[str] = []
        for operator in reversed(graph.operators):
            if operator.result not in wanted:
                changes.append(f"{operator.name} dropped")
                continue
            if isinstance(operator, Join):
                operator = _without_unread(graph, operator, seen, changes)
            wanted.update(operator.reads)
            if not isinstance(operator, STRUCTURAL):
                seen.update(operator.reads)
            kept.append(operator)
        return PassResult(graph.with_operators(kept[::-1]), tuple(reversed(changes)))

    def ensures(self, graph: Graph) -> str | None:
        """Every result is wanted."""
        read = {value for operator in graph.operators for value in operator.reads}
        read.update(value for _, value in graph.outputs)
        dead = [operator.name for operator in graph.operators if operator.result not in read]
        return f"nobody reads the result of {dead[0]}" if dead else None


def _without_unread(graph: Graph, join: Join, seen: set[str], changes: list[str]) -> Join:
    """The join of the operands that a command or the caller sees."""
    sources = tuple(one for one in join.sources if any(share_bytes(graph, one, value) for value in seen))
    changes += [f"{name} of {join.name} left out" for name in join.sources if name not in sources]
    return replace(join, sources=sources) if sources != join.sources else join
