"""The chosen few lie nearest to all members together, not each for itself."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from flows.medoids import cost, masses, medoids


def between(candidates: np.ndarray, members: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(candidates[:, None] - members[None], axis=2))


def test_split_votes_do_not_hide_a_dense_neighbourhood() -> None:
    """Thirty members with a candidate each, all within reach of one, and two members far off with one candidate."""
    random = np.random.default_rng(0)
    dense = random.normal(0.0, 0.05, (30, 2))
    members = np.vstack([dense, [[3.0, 0.0], [3.0, 0.1]]])
    candidates = np.vstack([dense, [[0.0, 0.0]], [[3.0, 0.05]], [[9.0, 9.0]]])
    distances = between(candidates, members)
    votes = np.bincount(distances.argmin(axis=0), minlength=len(candidates))
    by_votes = [int(i) for i in np.argsort(-votes, kind="stable")[:2]]
    chosen = medoids(distances, 2)
    assert 31 in chosen
    assert cost(distances, chosen) < cost(distances, by_votes)
    assert masses(distances, chosen) == [30, 2]


def test_swaps_find_the_best_pair_of_small_problems() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        distances = between(random.normal(size=(8, 3)), random.normal(size=(12, 3)))
        best = min(cost(distances, list(pair)) for pair in combinations(range(8), 2))
        assert cost(distances, medoids(distances, 2)) <= 1.05 * best


def test_nothing_is_chosen_that_brings_nothing() -> None:
    distances = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert medoids(distances, 3) == [0, 2]
    assert medoids(np.zeros((0, 3)), 2) == []
    assert medoids(np.zeros((3, 0)), 2) == []


def test_the_same_distances_give_the_same_choice() -> None:
    distances = between(np.random.default_rng(1).normal(size=(40, 4)), np.random.default_rng(2).normal(size=(60, 4)))
    assert medoids(distances, 5) == medoids(distances.copy(), 5)
