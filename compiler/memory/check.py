"""A second opinion on a placement: every rule again, from the offsets alone, sharing nothing with the planners.

Works on plain tuples and checks step by step which bytes are taken, so a mistake in how the planners think about
live ranges cannot hide here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class Allocation(Protocol):
    """What has to be placed: ``size`` bytes in steps ``first`` to ``last``, both included."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


def faults(
    allocations: Sequence[Allocation], offsets: Mapping[str, int], alignment: int, capacity: int | None = None
) -> list[str]:
    """What is wrong with the offsets, in words; empty when they are valid."""
    missing = [f"{one.name} has no offset" for one in allocations if one.name not in offsets]
    if missing:
        return missing
    found = [fault for one in allocations for fault in _alone(one, offsets[one.name], alignment, capacity)]
    pairs: dict[tuple[str, str], str] = {}
    for step in _steps(allocations):
        for pair, fault in _shared(allocations, offsets, step):
            pairs.setdefault(pair, fault)
    return found + list(pairs.values())


def _alone(one: Allocation, offset: int, alignment: int, capacity: int | None) -> Iterable[str]:
    if offset < 0:
        yield f"{one.name} begins at {offset}, before the memory"
    if offset % alignment:
        yield f"{one.name} begins at {offset}, which is no multiple of {alignment}"
    if capacity is not None and offset + one.size > capacity:
        yield f"{one.name} ends at {offset + one.size}, the memory has {capacity} bytes"


def _steps(allocations: Sequence[Allocation]) -> list[int]:
    """The steps at which something new is alive; an overlap first shows at one of them."""
    return sorted({one.first for one in allocations})


def _shared(
    allocations: Sequence[Allocation], offsets: Mapping[str, int], step: int
) -> Iterable[tuple[tuple[str, str], str]]:
    """Overlaps among what is alive at ``step``: sorted by offset, somebody overlaps the one that reaches highest."""
    alive = sorted(
        (offsets[one.name], offsets[one.name] + one.size, one.name)
        for one in allocations
        if one.size > 0 and one.first <= step <= one.last
    )
    reach, owner = -1, ""
    for start, end, name in alive:
        if start < reach:
            yield (owner, name), f"{owner} and {name} share bytes {start} to {min(reach, end)} at step {step}"
        if end > reach:
            reach, owner = end, name
