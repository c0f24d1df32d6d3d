"""Networks that contain the production network and cost no more than allowed: room that the device gives away.

A block narrower than what one launch of the device can do costs the same as a wider one. A network that contains
production starts from production's own weights and computes the same (`flows.tasks.vsr.inherit`), so such room is
taken before anything else is searched, and a search that happens to draw none of these networks cannot miss them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from flows.tasks.vsr.architecture import Architecture, Space, Stage


def contains(architecture: Architecture, inner: Architecture) -> bool:
    """Whether `architecture` can compute exactly what `inner` computes: no stage is shallower, narrower or smaller."""
    return (
        (architecture.trunk, architecture.fine) == (inner.trunk, inner.fine)
        and architecture.history == inner.history
        and len(architecture.stages) == len(inner.stages)
        and all(
            not theirs.depth or (ours.depth >= theirs.depth and ours.mid >= theirs.mid and ours.kernel >= theirs.kernel)
            for ours, theirs in zip(architecture.stages, inner.stages, strict=True)
        )
    )


def widenings(
    space: Space,
    inherited: Architecture,
    affected: tuple[int, ...],
    latency: Callable[[Architecture], float],
    limit: float,
    most: int = 4,
) -> tuple[Architecture, ...]:
    """At most `most` networks of the space that contain `inherited`, differ from it in `affected` stages only, meet the
    latency limit, and are contained in no other such network; the one with most weights first.
    """
    choices = [_wider(space, stage) if index in affected else (stage,) for index, stage in enumerate(inherited.stages)]
    allowed = [
        wide
        for stages in product(*choices)
        if (wide := replace(inherited, stages=stages)) != inherited and latency(wide) <= limit
    ]
    largest = [wide for wide in allowed if not any(other != wide and contains(other, wide) for other in allowed)]
    return tuple(sorted(largest, key=lambda wide: -wide.parameters())[:most])


def _wider(space: Space, stage: Stage) -> tuple[Stage, ...]:
    return tuple(
        Stage(depth, mid, kernel)
        for depth, mid, kernel in product(space.depths, space.mids, space.kernels)
        if depth >= stage.depth and (not depth or (mid >= stage.mid and kernel >= stage.kernel))
    ) or (stage,)
