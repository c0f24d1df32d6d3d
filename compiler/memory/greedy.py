"""Placement: first fit in several orders, best result. Offsets are multiples of the alignment.

Invariant: two buffers that are alive together never share a byte. Deterministic for the same input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.memory.buffers import Buffer

Order = Callable[[Buffer], tuple[int, ...]]
_ORDERS: Mapping[str, Order] = {
    "size": lambda b: (-b.size, b.first),
    "area": lambda b: (-b.size * (b.last - b.first + 1), b.first),
    "lifetime": lambda b: (-(b.last - b.first), -b.size, b.first),
    "start": lambda b: (b.first, -b.size),
}


@dataclass(frozen=True)
class Placement:
    """Offset of each buffer by name, the highest byte used, and the order that found it."""

    offsets: Mapping[str, int]
    peak: int
    method: str


def place(buffers: Sequence[Buffer], alignment: int) -> Placement:
    """The best of all orders; ties go to the earlier order."""
    placements = [_first_fit(sorted(buffers, key=key), alignment, name) for name, key in _ORDERS.items()]
    return min(placements, key=lambda placement: placement.peak)


def _first_fit(buffers: list[Buffer], alignment: int, method: str) -> Placement:
    offsets: dict[str, int] = {}
    placed: list[Buffer] = []
    for buffer in buffers:
        taken = sorted((offsets[b.name], offsets[b.name] + b.size) for b in placed if b.overlaps(buffer))
        offsets[buffer.name] = _gap(taken, buffer.size, alignment)
        placed.append(buffer)
    peak = max((offsets[b.name] + b.size for b in placed), default=0)
    return Placement(offsets, peak, f"greedy by {method}")


def _gap(taken: list[tuple[int, int]], size: int, alignment: int) -> int:
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset
