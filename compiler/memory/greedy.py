"""Placement: first fit in several orders, best result. Offsets are multiples of the alignment.

Invariant: two buffers that are alive together never share a byte. Deterministic for the same input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from compiler.memory.buffers import Buffer
from compiler.memory.placement import Placement, Proof
from compiler.memory.problem import lower_bound

__all__ = ["ORDERS", "Placement", "first_fit", "neighbours", "order_of", "peak_of", "place", "placement_of"]

Order = Callable[[Buffer], tuple[int, ...]]
ORDERS: Mapping[str, Order] = {
    "size": lambda b: (-b.size, b.first),
    "area": lambda b: (-b.size * (b.last - b.first + 1), b.first),
    "lifetime": lambda b: (-(b.last - b.first), -b.size, b.first),
    "start": lambda b: (b.first, -b.size),
}


def place(buffers: Sequence[Buffer], alignment: int) -> Placement:
    """The best of all orders; ties go to the earlier order."""
    near = neighbours(buffers)
    placements = {name: first_fit(buffers, order_of(buffers, name), near, alignment) for name in ORDERS}
    name = min(placements, key=lambda order: peak_of(buffers, placements[order]))
    return placement_of(buffers, placements[name], alignment, f"greedy by {name}")


def placement_of(buffers: Sequence[Buffer], offsets: Sequence[int], alignment: int, method: str) -> Placement:
    """Offsets by index as a placement with its bound."""
    peak, bound = peak_of(buffers, offsets), lower_bound(buffers, alignment)
    named = {buffer.name: offset for buffer, offset in zip(buffers, offsets, strict=True)}
    met = -(-peak // alignment) <= -(-bound // alignment)
    return Placement(named, peak, method, bound, Proof.BOUND if met else Proof.NONE)


def peak_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """One past the highest byte used."""
    return max((offset + buffer.size for buffer, offset in zip(buffers, offsets, strict=True)), default=0)


def order_of(buffers: Sequence[Buffer], name: str) -> list[int]:
    """Indices of the buffers in one of the orders."""
    key = ORDERS[name]
    return sorted(range(len(buffers)), key=lambda index: key(buffers[index]))


def neighbours(buffers: Sequence[Buffer]) -> list[list[int]]:
    """For each buffer, by index, the others alive at some step of its own."""
    near: list[list[int]] = [[] for _ in buffers]
    begun = sorted(range(len(buffers)), key=lambda index: buffers[index].first)
    firsts = [buffers[index].first for index in begun]
    for place, index in enumerate(begun):
        for other in begun[place + 1 : bisect_left(firsts, buffers[index].last + 1)]:
            near[index].append(other)
            near[other].append(index)
    return near


def first_fit(
    buffers: Sequence[Buffer], order: Sequence[int], near: Sequence[Sequence[int]], alignment: int
) -> list[int]:
    """Offsets by index when buffers are put, in this order, at the lowest place that is free."""
    offsets = [-1] * len(buffers)
    for index in order:
        placed = [other for other in near[index] if offsets[other] >= 0]
        taken = sorted((offsets[other], offsets[other] + buffers[other].size) for other in placed)
        offsets[index] = _gap(taken, buffers[index].size, alignment)
    return offsets


def _gap(taken: list[tuple[int, int]], size: int, alignment: int) -> int:
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset
