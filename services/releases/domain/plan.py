"""The stages of a rollout, fitted to the fleet that it will meet.

A stage that would expose fewer devices than a verdict needs teaches nothing, so an early stage is widened until
each device class that matters has enough canaries; it never takes more than half of a class, so that a control remains.

Invariants: stages only grow; the last one is what was asked for; a stage is never narrower than asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contracts.state import BUCKETS

SPARE = 1


def plan_stages(
    requested: Sequence[int], fleet: Mapping[str, Sequence[int]], min_devices: int, per_class: int, share: float
) -> tuple[int, ...]:
    """Basis points of each stage. `fleet` gives the buckets of the eligible devices of each class.

    Raises ValueError when the requested stages do not grow or leave the range 1..10,000.
    """
    grows = all(low < high for low, high in zip(requested, requested[1:], strict=False))
    if not grows or not 1 <= requested[0] <= requested[-1] <= BUCKETS:
        raise ValueError(f"stages must grow within 1..{BUCKETS} basis points, got {list(requested)}")
    least = _least_exposure(fleet, min_devices, per_class, share)
    widened = [min(max(points, least), requested[-1]) for points in requested[:-1]]
    return (*(points for points in sorted(set(widened)) if points < requested[-1]), requested[-1])


def exposed(fleet: Mapping[str, Sequence[int]], basis_points: int) -> dict[str, int]:
    """How many known devices of each class a stage means."""
    return {name: sum(place < basis_points for place in places) for name, places in fleet.items()}


def _least_exposure(
    fleet: Mapping[str, Sequence[int]], min_devices: int, per_class: int, share: float
) -> int:
    everyone = [place for places in fleet.values() for place in places]
    needs = [_reach(everyone, min_devices)]
    needs += [
        _reach(places, per_class + SPARE)
        for places in fleet.values()
        if len(places) >= share * max(len(everyone), 1)
    ]
    return max(needs)


def _reach(places: Sequence[int], wanted: int) -> int:
    """The fewest basis points that include `wanted` of these buckets, but no more than half of them."""
    if not places:
        return 0
    count = min(wanted, max(1, len(places) // 2))
    return sorted(places)[count - 1] + 1
