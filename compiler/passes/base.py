"""What a pass is: precondition, run, postcondition, and what it says about its work.

Invariant: ``apply`` hands on only graphs that keep the IR's invariants and the pass's own postcondition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from compiler.errors import InternalError
from compiler.ir import Graph, check


@dataclass(frozen=True)
class Unfused:
    """An edge that stayed in memory although a pass looked at it, with the reason."""

    producer: str
    consumer: str
    reason: str


@dataclass(frozen=True)
class PassResult:
    """The new graph, one line for each change, and the edges that stayed with their reasons."""

    graph: Graph
    changes: tuple[str, ...] = ()
    unfused: tuple[Unfused, ...] = field(default=())


class Pass(Protocol):
    """A pass over the integer IR."""

    name: str

    def requires(self, graph: Graph) -> str | None:
        """What the graph lacks for this pass to run; None when it may."""

    def run(self, graph: Graph) -> PassResult:
        """The work. Never changes ``graph``."""

    def ensures(self, graph: Graph) -> str | None:
        """What the new graph lacks of the pass's promise; None when it holds."""


def apply(step: Pass, graph: Graph) -> PassResult:
    """Run a pass between its conditions; raises InternalError when one fails."""
    problem = step.requires(check(graph))
    if problem:
        raise InternalError(step.name, f"precondition: {problem}", "report this model")
    result = step.run(graph)
    problem = step.ensures(check(result.graph))
    if problem:
        raise InternalError(step.name, f"postcondition: {problem}", "report this model")
    return result
