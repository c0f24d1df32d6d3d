"""A segment: kernels that run together, stripe by stripe, with only the rows alive that someone still needs.

Nodes in order of a round: loads (rows from DDR), the steps of the kernels, stores (rows to DDR). Values that leave or
enter the segment through SRAM are whole maps. Values that are updated in place (the trunk of residual blocks) form
groups and share one ring of rows, and so do the windows of one map (Concat, Split): each maker writes its channels or
columns of the ring's rows, a reader waits for all makers of what it reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from compiler.depth_first.rows import Operand, Shape, shape_of
from compiler.ir import PLAIN, STRUCTURAL, Conv, Graph, Operator, place, share_bytes
from compiler.memory.buffers import windowed
from compiler.schedule import Kernel, Step


class Kind(Enum):
    """What a node is."""

    LOAD = "load"
    STEP = "step"
    STORE = "store"


@dataclass(frozen=True)
class Node:
    """One operator or transfer of a segment; `result` is the value whose SRAM rows it makes, empty for a store."""

    kind: Kind
    kernel: str
    shape: Shape
    result: str
    step: Step | None = None
    value: str = ""
    """What a load or store moves."""


@dataclass(frozen=True)
class Segment:
    """Nodes of one round. `whole`: values that are whole maps in SRAM; `ready`: those of them made before."""

    kernels: tuple[Kernel, ...]
    nodes: tuple[Node, ...]
    whole: frozenset[str]
    ready: frozenset[str]
    groups: Mapping[str, str]
    """Value -> name of the group whose ring it lives in."""

    heights: Mapping[str, int]
    makers: Mapping[str, tuple[int, ...]]
    """Value -> nodes that write bytes of it; none when it was made before."""

    joined: frozenset[str]
    """Groups that are a map with its windows."""


def make_segment(
    graph: Graph, kernels: Sequence[Kernel], whole: frozenset[str], apart: frozenset[str] = frozenset()
) -> Segment:
    """The segment of some kernels. `whole`: values that cross its border in SRAM; all others cross in DDR.
    `apart`: results that may not be made in place.
    """
    steps = [(kernel.name, step) for kernel in kernels for step in kernel.steps]
    made = {step.result for _, step in steps}
    whose = {value: _root(graph, value) for _, step in steps for value in (*step.reads, step.result)}
    roots = {whose[value] for value in made}
    entering = list(
        dict.fromkeys(whose[value] for _, step in steps for value in step.reads if whose[value] not in roots)
    )
    leaving = dict.fromkeys(
        whose[step.result]
        for _, step in steps
        if graph.is_output(whose[step.result]) or _read_elsewhere(graph, step, kernels)
    )
    nodes = [
        Node(Kind.LOAD, kernels[0].name, Shape((), graph.values[value].height, 1, 1), value, value=value)
        for value in entering
        if value not in whole
    ]
    nodes += [Node(Kind.STEP, name, shape_of(step, graph.values), step.result, step) for name, step in steps]
    nodes += [_store(value, graph, kernels[-1].name) for value in leaving if value not in whole]
    inside = whole & {*entering, *made}
    groups = in_place(graph, [step for _, step in steps], apart | windowed(graph))
    groups |= {root: root for value, root in whose.items() if value != root}
    groups |= {value: root for value, root in whose.items() if value != root}
    heights = {value: graph.values[value].height for value in (*entering, *groups)}
    return Segment(
        tuple(kernels),
        tuple(nodes),
        inside,
        inside & set(entering),
        groups,
        heights,
        _makers(graph, heights, nodes),
        frozenset(root for value, root in whose.items() if value != root),
    )


def _root(graph: Graph, value: str) -> str:
    """The value that owns the bytes."""
    return value if graph.values[value].window is None else place(graph, value).root.name


def _makers(graph: Graph, values: Iterable[str], nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
    """For each value the nodes whose result is it, or shares its channels and columns of one map."""
    inside: dict[str, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        if node.result:
            inside[_root(graph, node.result)].append(index)
    return {
        value: tuple(index for index in inside[_root(graph, value)] if share_bytes(graph, value, nodes[index].result))
        for value in values
    }


def in_place(graph: Graph, steps: Sequence[Step], apart: frozenset[str]) -> dict[str, str]:
    """Value -> group. The result of a fused addition replaces the rows of its residual where nobody reads them later
    and both have one form.
    """
    last = {value: index for index, step in enumerate(steps) for value in step.reads}
    later = {value for _, value in graph.outputs} | {*graph.inputs}
    groups = {value: value for step in steps for value in (*step.reads, step.result)}
    for index, step in enumerate(steps):
        if not isinstance(step, Conv) or step.residual is None or step.write != PLAIN or step.result in apart:
            continue
        other = step.residual
        if other.value in apart:
            continue
        alone = last[other.value] == index and step.source != other.value and other.view == PLAIN
        if (
            alone
            and other.value not in later
            and step.result not in later
            and not _used_after(graph, steps, other.value)
        ):
            groups[step.result] = groups[other.value]
    return groups


def _used_after(graph: Graph, steps: Sequence[Step], value: str) -> bool:
    names = {step.name for step in steps}
    readers = [step for op in _commands(graph, value) for step in (getattr(op, "body", (op,)))]
    return any(value in step.reads and step.name not in names for step in readers)


def _commands(graph: Graph, value: str) -> list[Operator]:
    """Operators that read the value with a command; a Concat or Split only says where it lies."""
    return [operator for operator in graph.consumers(value) if not isinstance(operator, STRUCTURAL)]


def _names(kernels: Sequence[Kernel]) -> set[str]:
    return {step.name for kernel in kernels for step in kernel.steps}


def _read_elsewhere(graph: Graph, step: Step, kernels: Sequence[Kernel]) -> bool:
    names = _names(kernels)
    readers = [part for op in _commands(graph, step.result) for part in (getattr(op, "body", (op,)))]
    return any(step.result in part.reads and part.name not in names for part in readers)


def _store(value: str, graph: Graph, kernel: str) -> Node:
    height = graph.values[value].height
    operand = Operand(value, PLAIN, height)
    return Node(Kind.STORE, kernel, Shape((operand,), height, 1, 1), "", value=value)
