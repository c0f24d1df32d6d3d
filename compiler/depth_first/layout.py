"""A depth-first program before it has addresses: segments, the order of all commands, and the buffers they need.

Buffers live from the first command that touches them to the last. Values that cross from one segment to the next in
SRAM are whole maps; those that cross in DDR are stored by one segment and loaded by the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.constants import Constants
from compiler.depth_first.rounds import Conflict, Played, Stripe, play
from compiler.depth_first.segment import Kind, Node, Segment, make_segment
from compiler.ir import place
from compiler.memory.buffers import Buffer
from compiler.memory.plan import CONSTANTS, QUANT, weights_buffer
from compiler.schedule import Kernel, Schedule


@dataclass(frozen=True)
class Cut:
    """One segment of a choice: kernels `first` .. `last` (one past), rows of a stripe."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Choice:
    """How a net is cut. `in_sram`: values that cross a border as whole maps in SRAM."""

    cuts: tuple[Cut, ...]
    in_sram: frozenset[str]
    resident: bool
    double_buffer: bool = True


@dataclass(frozen=True)
class Part:
    """A segment with its stripes."""

    segment: Segment
    played: Played


@dataclass(frozen=True)
class Item:
    """One command to be: a stripe of a part, or the constants of a kernel."""

    part: int
    stripe: Stripe | None
    weights: str = ""


@dataclass(frozen=True)
class Layout:
    """Everything but offsets. `rings`: rows of each buffer of values; `buffer_of`: (part, value) -> buffer."""

    parts: tuple[Part, ...]
    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    rings: Mapping[str, int]
    buffer_of: Mapping[tuple[int, str], str]
    crossing: tuple[str, ...]
    """Values that cross in DDR, in order."""


def lay_out(
    schedule: Schedule, constants: Constants, quant_bytes: int, choice: Choice, *, settle: bool = False
) -> Layout:
    """The layout of a choice; raises Stuck when a segment cannot be cut like that."""
    parts = tuple(_part(schedule, cut, choice, settle=settle) for cut in choice.cuts)
    items = _items(parts, constants, choice.resident)
    buffer_of = _buffer_names(parts)
    rings = _ring_rows(parts, buffer_of)
    buffers = _buffers(schedule, constants, quant_bytes, choice, parts, items, buffer_of, rings)
    stored = dict.fromkeys(node.value for part in parts for node in part.segment.nodes if node.kind is Kind.STORE)
    crossing = tuple(value for value in stored if not schedule.graph.is_output(value))
    return Layout(parts, tuple(items), tuple(buffers), rings, buffer_of, crossing)


def _part(schedule: Schedule, cut: Cut, choice: Choice, *, settle: bool) -> Part:
    apart: frozenset[str] = frozenset()
    kernels = schedule.kernels[cut.first : cut.last]
    while True:
        segment = make_segment(schedule.graph, kernels, choice.in_sram, apart)
        try:
            return Part(segment, play(segment, cut.rows, double_buffer=choice.double_buffer, settle=settle))
        except Conflict as conflict:
            apart |= {conflict.result}


def _items(parts: Sequence[Part], constants: Constants, resident: bool) -> list[Item]:
    items: list[Item] = []
    if not resident:
        items += _weights(0, parts[0].segment.kernels, constants)
    for index, part in enumerate(parts):
        if not resident and index + 1 < len(parts):
            items += _weights(index, parts[index + 1].segment.kernels, constants)
        items += [Item(index, stripe) for stripe in part.played.stripes]
    return items


def _weights(part: int, kernels: Sequence[Kernel], constants: Constants) -> list[Item]:
    return [Item(part, None, kernel.name) for kernel in kernels if constants.kernels[kernel.name][1]]


def _buffer_names(parts: Sequence[Part]) -> dict[tuple[int, str], str]:
    """Buffer of each value in each part. Groups that share a whole value across parts are one buffer."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    own = {(i, v): f"{g} in part {i}" for i, part in enumerate(parts) for v, g in part.segment.groups.items()}
    for (index, value), name in own.items():
        if value in parts[index].segment.whole:
            first, second = root(f"whole {value}"), root(name)
            parent[max(first, second)] = min(first, second)
    names = {key: root(name) for key, name in own.items()}
    return {key: _readable(name, len(parts)) for key, name in names.items()}


def _readable(name: str, parts: int) -> str:
    value, _, part = name.partition(" in part ")
    return f"{value} (segment {part})" if parts > 1 else value


def _ring_rows(parts: Sequence[Part], buffer_of: Mapping[tuple[int, str], str]) -> dict[str, int]:
    rings: dict[str, int] = {}
    for index, part in enumerate(parts):
        for value, group in part.segment.groups.items():
            name = buffer_of[index, value]
            rows = part.segment.heights[value] if value in part.segment.whole else part.played.rings.get(group, 0)
            rings[name] = max(rings.get(name, 0), rows)
    return rings


def _buffers(
    schedule: Schedule,
    constants: Constants,
    quant_bytes: int,
    choice: Choice,
    parts: Sequence[Part],
    items: Sequence[Item],
    buffer_of: Mapping[tuple[int, str], str],
    rings: Mapping[str, int],
) -> list[Buffer]:
    life: dict[str, tuple[int, int]] = {}

    def touch(name: str, index: int) -> None:
        life[name] = (life.get(name, (index, index))[0], index)

    for index, item in enumerate(items):
        if item.stripe is None:
            touch(weights_buffer(item.weights), index)
            continue
        node = parts[item.part].segment.nodes[item.stripe.node]
        for touched in _values(node):
            touch(buffer_of[item.part, touched], index)
        if node.kind is Kind.STEP and not choice.resident:
            touch(weights_buffer(node.kernel), index)
    members: dict[str, list[str]] = {}
    for (_, inside), name in buffer_of.items():
        if inside not in members.setdefault(name, []):
            members[name].append(inside)
    end = len(items) - 1
    buffers = [Buffer(QUANT, quant_bytes, 0, end)] if quant_bytes else []
    if choice.resident and constants.data:
        buffers.append(Buffer(CONSTANTS, len(constants.data), 0, end))
    for name, (first, last) in life.items():
        if name in members:
            value = place(schedule.graph, members[name][0]).root
            size = rings[name] * value.width * value.channels
            buffers.append(Buffer(name, size, first, last, tuple(members[name])))
        elif constants.kernels[_kernel_of(name, schedule)][1]:
            buffers.append(Buffer(name, constants.kernels[_kernel_of(name, schedule)][1], first, last))
    return buffers


def _kernel_of(buffer: str, schedule: Schedule) -> str:
    return next(kernel.name for kernel in schedule.kernels if weights_buffer(kernel.name) == buffer)


def _values(node: Node) -> list[str]:
    reads = [operand.value for operand in node.shape.operands]
    return [*reads, node.result] if node.result else reads
