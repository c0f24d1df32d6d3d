"""Which few of many candidates stand in best for a set of members: k-medoids with the members as mass.

Counting for how many members each candidate is the nearest splits the votes of a dense neighbourhood among candidates
that hardly differ, and a lone odd one wins. Here a set is judged as a whole: the mean distance from a member to its
nearest chosen candidate. Greedy build, then swaps while they help (Kaufman and Rousseeuw's PAM, members and candidates
apart). No randomness; ties go to the earlier candidate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_ROUNDS = 20
_LEAST_GAIN = 1e-9


def medoids(distances: Floats, count: int) -> list[int]:
    """Indices of at most `count` of the n candidates for distances [n, m] to members, best first.

    "Best first" is by the number of members that lie nearest to each. Fewer come back when more bring nothing.
    """
    candidates, members = distances.shape
    if not candidates or not members:
        return []
    chosen = _build(distances, min(count, candidates))
    for _ in range(_ROUNDS):
        if not _swap(distances, chosen):
            break
    mass = masses(distances, chosen)
    return [chosen[i] for i in np.lexsort((chosen, [-m for m in mass]))]


def masses(distances: Floats, chosen: list[int]) -> list[int]:
    """For each chosen candidate, how many members lie nearest to it among the chosen."""
    nearest = distances[chosen].argmin(axis=0)
    return [int(count) for count in np.bincount(nearest, minlength=len(chosen))]


def cost(distances: Floats, chosen: list[int]) -> float:
    """Mean distance of a member to its nearest chosen candidate."""
    return float(distances[chosen].min(axis=0).mean())


def _build(distances: Floats, count: int) -> list[int]:
    chosen: list[int] = []
    best = np.full(distances.shape[1], np.inf)
    while len(chosen) < count:
        totals = np.minimum(distances, best).sum(axis=1)
        index = int(totals.argmin())
        if chosen and best.sum() - totals[index] <= _LEAST_GAIN:
            break
        chosen.append(index)
        best = np.minimum(best, distances[index])
    return chosen


def _swap(distances: Floats, chosen: list[int]) -> bool:
    """Replace chosen candidates, one after the other, by whatever lowers the cost most; True when one was."""
    changed = False
    for place in range(len(chosen)):
        others = [index for i, index in enumerate(chosen) if i != place]
        rest = distances[others].min(axis=0) if others else np.full(distances.shape[1], np.inf)
        totals = np.minimum(distances, rest).sum(axis=1)
        index = int(totals.argmin())
        if totals[chosen[place]] - totals[index] > _LEAST_GAIN:
            chosen[place], changed = index, True
    return changed
