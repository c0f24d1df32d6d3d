"""Free room in a layer: buckets from 0 to `BUCKETS`, taken in half-open parts that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from contracts.state import BUCKETS

Part = tuple[int, int]


def gaps(taken: Sequence[Part]) -> Iterator[Part]:
    """What is free between the parts, in order."""
    edges = [(0, 0), *sorted(taken), (BUCKETS, BUCKETS)]
    for (_, end), (start, _) in pairwise(edges):
        if start > end:
            yield end, start


def first_gap(taken: Sequence[Part], share: int) -> int | None:
    """Where the first gap of at least `share` buckets begins; None when there is none."""
    return next((low for low, high in gaps(taken) if high - low >= share), None)


def free_share(taken: Sequence[Part]) -> int:
    """How many buckets are free."""
    return sum(high - low for low, high in gaps(taken))
