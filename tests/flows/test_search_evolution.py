"""The evolution itself: draws are seeded, forbidden rows never win, and published problems reach published volumes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evolving.zdt import PROBLEMS, volume_of
from flows.search.evolution import Evolution, Numbers, Penalty, evolve, hypervolume

SMALL = Evolution(population=12, generations=6, spread_crossover=3.0, spread_mutation=3.0)
LOW, HIGH = np.zeros(4), np.full(4, 7.0)


def judge(rows: Numbers) -> tuple[Numbers, Numbers]:
    """Two rival sums; rows whose first gene is above 5 are forbidden."""
    return np.stack([rows.sum(axis=1), ((7 - rows) ** 2).sum(axis=1)], axis=1), rows[:, :1] - 5


@pytest.mark.parametrize("penalty", [None, Penalty()])
def test_the_same_seed_gives_the_same_rows_whatever_numpy_was_seeded_with(penalty: Penalty | None) -> None:
    settings = Evolution(population=12, generations=6, penalty=penalty, seed=5)
    runs = []
    for elsewhere in (1, 2):
        np.random.seed(elsewhere)
        runs.append(evolve(LOW, HIGH, judge, settings, constraints=1, integer=True).rows)
    np.testing.assert_array_equal(*runs)
    other = evolve(LOW, HIGH, judge, Evolution(12, 6, seed=6), constraints=1, integer=True).rows
    assert not np.array_equal(runs[0], other)


@pytest.mark.parametrize("penalty", [None, Penalty()])
def test_forbidden_rows_are_never_on_the_front_and_genes_stay_whole_and_inside(penalty: Penalty | None) -> None:
    settings = Evolution(12, 8, spread_crossover=3.0, spread_mutation=3.0, penalty=penalty)
    found = evolve(LOW, HIGH, judge, settings, constraints=1, integer=True)
    np.testing.assert_array_equal(found.rows, np.rint(found.rows))
    assert found.rows.min() >= 0
    assert found.rows.max() <= 7
    assert len(found.front)
    assert (found.violations[found.front] <= 0).all()


def test_a_penalty_grows_from_its_first_weight_to_its_last() -> None:
    weights = [Penalty(2.0, 200.0).weight(share) for share in (0.0, 0.5, 1.0)]
    assert weights == pytest.approx([2.0, 20.0, 200.0])


def test_a_front_of_nothing_allowed_is_empty() -> None:
    found = evolve(LOW, HIGH, lambda rows: (rows[:, :2], np.ones((len(rows), 1))), SMALL, constraints=1, integer=True)
    assert len(found.front) == 0
    assert hypervolume(found.objectives[found.front], np.array([9.0, 9.0])) == 0.0


def test_hypervolume_of_known_boxes() -> None:
    points = np.array([[1.0, 3.0], [2.0, 1.0], [5.0, 5.0]])
    assert hypervolume(points, np.array([4.0, 4.0])) == pytest.approx(3 * 1 + 2 * 2)


def test_progress_ends_at_one() -> None:
    told: list[float] = []
    evolve(LOW, HIGH, judge, SMALL, constraints=1, integer=True, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("name", ["zdt1", "zdt2", "zdt3"])
def test_search_reaches_the_published_front_of_easy_problems(name: str) -> None:
    problem = PROBLEMS[name]
    assert volume_of(problem, generations=120, seed=1) >= 0.97 * problem.front_volume
