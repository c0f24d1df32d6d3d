"""Buffers and their live ranges, derived from a schedule.

Time is the index of a step. A buffer is alive from the step that first writes it to the last that reads it,
both included, so a step's result never shares bytes with its source. A residual that dies in the step that
adds it shares its buffer with the sum: the addition is elementwise and in place. Windows live in the bytes of the value
that they are part of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir import PLAIN, STRUCTURAL, Conv, Graph, place
from compiler.schedule import Schedule


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes alive in steps ``first`` .. ``last``; ``values`` are the tensors that live in it in
    turn.
    """

    name: str
    size: int
    first: int
    last: int
    values: tuple[str, ...] = ()

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


def value_buffers(schedule: Schedule) -> list[Buffer]:
    """One buffer for each group of values that share storage; input and outputs included."""
    made, read = _live(schedule)
    groups = _in_place_groups(schedule, made, read)
    buffers = []
    for group in groups:
        size = schedule.graph.values[group[0]].size
        last = max(read.get(value, made[value]) for value in group)
        buffers.append(Buffer(group[0], size, min(made[value] for value in group), last, tuple(group)))
    return buffers


def naive_peak(graph: Graph) -> int:
    """Bytes alive at once when each operator of the unfused graph runs alone and all tensors stay in SRAM."""
    made = dict.fromkeys(graph.inputs, 0)
    last = dict.fromkeys(graph.inputs, 0)
    for index, operator in enumerate(graph.operators):
        if not isinstance(operator, STRUCTURAL):
            made[operator.result] = last[operator.result] = index
        last.update(dict.fromkeys((value for value in operator.reads if value in made), index))
    last.update(dict.fromkeys((value for _, value in graph.outputs), len(graph.operators) - 1))
    steps = range(len(graph.operators))
    return max(sum(graph.values[v].size for v in made if made[v] <= step <= last[v]) for step in steps)


def lower_bound(buffers: list[Buffer]) -> int:
    """The most bytes alive at any step: no placement can need less."""
    starts = {buffer.first for buffer in buffers}
    return max((sum(b.size for b in buffers if b.first <= step <= b.last) for step in starts), default=0)


def _live(schedule: Schedule) -> tuple[dict[str, int], dict[str, int]]:
    """First write and last read of each value that has bytes of its own; windows count for their root."""
    graph = schedule.graph
    made, read = dict.fromkeys(graph.inputs, 0), {}
    for index, step in enumerate(schedule.steps):
        made.setdefault(place(graph, step.result).root.name, index)
        for value in step.reads:
            read[place(graph, value).root.name] = index
    for _, value in graph.outputs:
        read[value] = len(schedule.steps) - 1
    return made, read


def windowed(graph: Graph) -> set[str]:
    """Values that are windows or hold some."""
    found: set[str] = set()
    for value in graph.values.values():
        if value.window is not None:
            found |= {value.name, place(graph, value.name).root.name}
    return found


def _in_place_groups(schedule: Schedule, made: Mapping[str, int], read: Mapping[str, int]) -> list[list[str]]:
    graph = schedule.graph
    home = {value: [value] for value in made}
    shared = windowed(graph)
    for index, step in enumerate(schedule.steps):
        if not isinstance(step, Conv) or step.residual is None or step.write != PLAIN:
            continue
        residual = step.residual
        if shared & {step.result, residual.value}:
            continue
        dies_here = read[residual.value] == index and step.source != residual.value and residual.view == PLAIN
        seen = graph.is_output(step.result) or graph.is_output(residual.value) or residual.value in graph.inputs
        if dies_here and not seen:
            group = home[residual.value]
            group.append(step.result)
            home[step.result] = group
    unique: dict[int, list[str]] = {id(group): group for group in home.values()}
    return list(unique.values())
