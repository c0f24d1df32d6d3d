"""A surrogate proposes networks, a few of them are judged, the surrogate learns from them, and so on.

Proposals come from the whole space where it is small, else from an evolution on predicted quality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flows.search.evolution import Evolution, Numbers, evolve
from flows.search.judged import Judged
from flows.search.surrogate import Surrogate

SMALL_SPACE = 5_000


def guided(
    judged: Judged, inner: Evolution, *, rounds: int, batch: int, progress: Callable[[float], None] | None
) -> float:
    """Judge `rounds` x `batch` networks (the first batch at random); returns the surrogate's last error in dB.

    `inner` runs on predicted quality and true latency, and only where the space has more than `SMALL_SPACE` members.
    """
    rng = np.random.default_rng(inner.seed)
    judged.judge(rng.integers(0, judged.genome.upper, (batch, judged.genome.length), endpoint=True).astype(np.float64))
    model = judged.learn()
    for turn in range(1, rounds):
        met = _met(judged, model, replace(inner, seed=inner.seed + turn))
        proposed = _proposed(*met, judged, batch)
        if not len(proposed):
            break  # every network that the evolution met is judged already
        judged.judge(proposed)
        model = judged.learn()
        if progress is not None:
            progress((turn + 1) / rounds)
    return model.error


def _met(judged: Judged, model: Surrogate, inner: Evolution) -> tuple[Numbers, Numbers, Numbers]:
    """Different rows with predicted objectives and violations: all there are, or those that an evolution passed."""
    if judged.genome.size <= SMALL_SPACE:
        rows = judged.genome.rows()
        return rows, *judged.guess(rows, model)
    lower, upper = np.zeros(judged.genome.length), judged.genome.upper.astype(np.float64)
    found = evolve(lower, upper, lambda asked: judged.guess(asked, model), inner, constraints=1, integer=True)
    rows, places = np.unique(found.rows, axis=0, return_index=True)
    return rows, found.objectives[places], found.violations[places]


def _proposed(rows: Numbers, objectives: Numbers, violations: Numbers, judged: Judged, count: int) -> Numbers:
    """Up to `count` rows not judged yet, allowed ones first: the predicted front spread over latency, then later."""
    unknown = np.array([not judged.knows(row) for row in rows], bool)
    allowed = (violations <= 0).all(axis=1)
    picked: list[Numbers] = []
    for wanted in (unknown & allowed, unknown & ~allowed):
        left, values = rows[wanted], objectives[wanted]
        while len(left) and len(picked) < count:
            front = np.flatnonzero(_undominated(values))
            front = front[np.argsort(values[front, 1])]
            room = count - len(picked)
            if len(front) > room:
                front = front[np.unique(np.linspace(0, len(front) - 1, room).round().astype(int))]
            picked += list(left[front])
            left, values = np.delete(left, front, axis=0), np.delete(values, front, axis=0)
    return np.array(picked)


def _undominated(values: Numbers) -> NDArray[np.bool_]:
    best, kept = np.inf, np.zeros(len(values), bool)
    for index in np.lexsort((values[:, 0], values[:, 1])):
        if values[index, 0] < best:
            best, kept[index] = values[index, 0], True
    return kept
