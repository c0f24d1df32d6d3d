"""The stages of a rollout, fitted to the fleet that it will meet.

A stage that would expose fewer devices than a verdict needs teaches nothing, so an early stage is widened until each
device class that matters has enough canaries. Small classes give half of their devices at most; where classes fall
so unevenly that one would be used up for another, a quarter of each still stays as its control.

Invariants: stages only grow; the last one is what was asked for; a stage is never narrower than asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from contracts.state import BUCKETS

SPARE = 1


def plan_stages(
    requested: Sequence[int],
    fleet: Mapping[str, Sequence[int]],
    min_devices: int,
    per_class: int,
    share: float,
) -> tuple[int, ...]:
    """Basis points of each stage. `fleet` gives the buckets of the eligible devices of each class.

    Raises ValueError when the requested stages do not grow or leave the range 1..10,000.
    """
    grows = all(low < high for low, high in pairwise(requested))
    if not grows or not 1 <= requested[0] <= requested[-1] <= BUCKETS:
        raise ValueError(f"stages must grow within 1..{BUCKETS} basis points, got {list(requested)}")
    least = _least_exposure(fleet, min_devices, per_class, share)
    widened = [min(max(points, least), requested[-1]) for points in requested[:-1]]
    return (*(points for points in sorted(set(widened)) if points < requested[-1]), requested[-1])


def exposed(fleet: Mapping[str, Sequence[int]], basis_points: int) -> dict[str, int]:
    """How many known devices of each class a stage means."""
    return {name: sum(place < basis_points for place in places) for name, places in fleet.items()}


def _least_exposure(fleet: Mapping[str, Sequence[int]], min_devices: int, per_class: int, share: float) -> int:
    everyone = [place for places in fleet.values() for place in places]
    classes = [places for places in fleet.values() if len(places) >= max(share * len(everyone), 1)]
    needs = [_reach(everyone, min_devices), *(_reach(places, per_class + SPARE) for places in classes)]
    return min(max(needs), *(_most(places) for places in classes), BUCKETS)


def _reach(places: Sequence[int], wanted: int) -> int:
    """The fewest basis points that include `wanted` of these buckets, or half of them where they are few."""
    if not places:
        return 0
    count = min(wanted, max(1, len(places) // 2))
    return sorted(places)[count - 1] + 1


def _most(places: Sequence[int]) -> int:
    """The most basis points that leave a quarter of these buckets out."""
    return sorted(places)[len(places) - max(1, len(places) // 4)]
