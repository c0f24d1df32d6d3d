"""A better order for first fit: move what stands at the peak forward, keep what is not worse.

Seeded and bounded by work, not by the clock: the same input gives the same result. A buffer at the peak changes
places with one that is alive with it and comes earlier in the order, so the towers under the peak get reshuffled.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from compiler.memory.buffers import Buffer
from compiler.memory.greedy import ORDERS, first_fit, neighbours, order_of, peak_of


def climb(buffers: Sequence[Buffer], alignment: int, target: int, work: int, seed: int = 0) -> list[int]:
    """Offsets by index. Ends at ``target`` bytes or after ``work`` pairs of buffers were compared."""
    near = neighbours(buffers)
    cost = max(1, sum(map(len, near)))
    chance = random.Random(seed)
    starts = [order_of(buffers, name) for name in ORDERS]
    order = min(starts, key=lambda o: peak_of(buffers, first_fit(buffers, o, near, alignment)))
    best = first_fit(buffers, order, near, alignment)
    peak = peak_of(buffers, best)
    for _ in range(work // cost - len(starts)):
        if peak <= target:
            break
        changed = _moved(buffers, order, near, best, peak, chance)
        offsets = first_fit(buffers, changed, near, alignment)
        if peak_of(buffers, offsets) <= peak:
            order, best, peak = changed, offsets, peak_of(buffers, offsets)
    return best


def _moved(
    buffers: Sequence[Buffer],
    order: Sequence[int],
    near: Sequence[Sequence[int]],
    offsets: Sequence[int],
    peak: int,
    chance: random.Random,
) -> list[int]:
    """The order with one buffer of a tower that reaches the peak moved to before one alive with it."""
    top = chance.choice([index for index, buffer in enumerate(buffers) if offsets[index] + buffer.size == peak])
    tower = [top, *(other for other in near[top] if near[other])]
    mover = top if chance.random() < 0.5 else chance.choice(tower)
    earlier = order[: order.index(mover)]
    alive = set(near[mover])
    before = [place for place, index in enumerate(earlier) if index in alive] or [0]
    changed = [index for index in order if index != mover]
    changed.insert(chance.choice(before), mover)
    return changed
