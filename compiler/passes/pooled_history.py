"""Keep the history small: average each state over 4 x 4 pixels, 8 bits each, and read it enlarged.

The only pass that changes results, so it is not in the pipeline: a caller asks for it (``WITH_POOLED_HISTORY``) and
measures what it costs. A state takes a sixteenth of its memory and of its traffic; the enlarged map lives in the frame
only and is joined in place. Promise: every state whose extents divide is small, and the others say why they are not.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Graph, Move, Operator, Pool, State, View
from compiler.passes.base import Pass, PassResult, Unfused
from compiler.passes.pipeline import PASSES
from contracts.npu import Layout
from contracts.npu.program import PoolMode

FACTOR = 4


class PooledHistory:
    """State -> reader becomes small state -> nearest enlargement -> reader, and what follows it is averaged."""

    name = "pooled-history"

    def requires(self, graph: Graph) -> str | None:
        """Every state is followed by an output of the same form."""
        outputs = dict(graph.outputs)
        for state in graph.states:
            if graph.values[state.value].shape != graph.values[outputs[state.output]].shape:
                return f"{state.name} and {state.output} have different shapes"
        return None

    def run(self, graph: Graph) -> PassResult:
        """Each state on its own."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for state in graph.states:
            reason = _obstacle(graph, state)
            if reason:
                unfused.append(Unfused(state.output, state.name, reason))
                continue
            before = graph.values[state.value].size
            graph = _pooled(graph, state)
            small = next(entry for entry in graph.states if entry.name == state.name)
            changes.append(f"{state.name} keeps {graph.values[small.value].size} bytes instead of {before}")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """What follows a state still has the state's form."""
        return self.requires(graph)


def _obstacle(graph: Graph, state: State) -> str | None:
    value = graph.values[state.value]
    if value.height % FACTOR or value.width % FACTOR:
        return f"{value.height}x{value.width} is not divisible by {FACTOR}"
    if min(value.height, value.width) == FACTOR:
        return f"{value.height}x{value.width} is small already"
    return None


def _pooled(graph: Graph, state: State) -> Graph:
    value, output = graph.values[state.value], graph.values[dict(graph.outputs)[state.output]]
    extents = {"height": value.height // FACTOR, "width": value.width // FACTOR, "window": None}
    kept = replace(value, name=f"{value.name}.kept", **extents)  # type: ignore[arg-type]  # fields of Value
    left = replace(output, name=f"{output.name}.kept", **extents)  # type: ignore[arg-type]  # fields of Value
    view = View(Layout.NEAREST, FACTOR)
    enlarge = Move(f"{state.name}.enlarged", kept.name, value.name, read=view, origin=(state.name,))
    square = (FACTOR, FACTOR)
    average = Pool(
        f"{state.output}.pooled", output.name, left.name, PoolMode.AVERAGE, square, square, origin=(state.output,)
    )
    operators: list[Operator] = [enlarge, *graph.operators, average]
    return replace(
        graph,
        values={**graph.values, kept.name: kept, left.name: left},
        outputs=tuple((name, left.name if name == state.output else made) for name, made in graph.outputs),
        states=tuple(replace(entry, value=kept.name) if entry is state else entry for entry in graph.states),
    ).with_operators(operators)


WITH_POOLED_HISTORY: tuple[Pass, ...] = (PooledHistory(), *PASSES)
"""The pipeline behind it."""
