"""The stages of a rollout, fitted to the fleet that it will meet.

A stage that would expose fewer devices than a verdict needs teaches nothing, so an early stage is widened until each
device class that matters has enough canaries, and every stage until a clean one could open the next: a stage that
cannot be passed however well it goes would only wait for a person. Small classes give half of their devices at most;
where classes fall so unevenly that one would be used up for another, a quarter of each still stays as its control.

Invariants: stages only grow; the last one is what was asked for; a stage is never narrower than asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from contracts.state import BUCKETS

SPARE = 1


def plan_stages(
    requested: Sequence[int],
    fleet: Mapping[str, Sequence[int]],
    min_devices: int,
    per_class: int,
    share: float,
    clean_canary: Callable[[float], int],
) -> tuple[int, ...]:
    """Basis points of each stage. `fleet` gives the buckets of the eligible devices of each class.

    `clean_canary` gives the devices that, without one failure, allow an exposure of that share of the fleet.
    Raises ValueError when the requested stages do not grow or leave the range 1..10,000.
    """
    grows = all(low < high for low, high in pairwise(requested))
    if not grows or not 1 <= requested[0] <= requested[-1] <= BUCKETS:
        raise ValueError(f"stages must grow within 1..{BUCKETS} basis points, got {list(requested)}")
    everyone = [place for places in fleet.values() for place in places]
    classes = [places for places in fleet.values() if len(places) >= max(share * len(everyone), 1)]
    most = min((*(_most(places) for places in classes), BUCKETS))
    needs = [_reach(everyone, min_devices), *(_reach(places, per_class + SPARE) for places in classes)]
    stages = [requested[-1]]
    for points in reversed(requested[:-1]):
        opens = _reach(everyone, clean_canary(stages[0] / BUCKETS))
        points = max(points, min(max(*needs, opens), most))
        if points < stages[0]:
            stages.insert(0, points)
    return tuple(stages)


def exposed(fleet: Mapping[str, Sequence[int]], basis_points: int) -> dict[str, int]:
    """How many known devices of each class a stage means."""
    return {name: sum(place < basis_points for place in places) for name, places in fleet.items()}


def _reach(places: Sequence[int], wanted: int) -> int:
    """The fewest basis points that include `wanted` of these buckets, or half of them where they are few."""
    if not places:
        return 0
    count = min(wanted, max(1, len(places) // 2))
    return sorted(places)[count - 1] + 1


def _most(places: Sequence[int]) -> int:
    """The most basis points that leave a quarter of these buckets out."""
    return sorted(places)[len(places) - max(1, len(places) // 4)]
