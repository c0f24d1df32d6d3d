"""The bench of the verdict's statistics: exact tables hold, and simulated shares are allowed their own error only."""

from __future__ import annotations

from benchmarks.judging import planned
from benchmarks.judging.rows import ceiling, floor, matches, standard_error
from benchmarks.judging.tables import Simulated


def test_every_figure_of_planned_looks_keeps_its_promise() -> None:
    missed = [figure.id for figure in planned.figures() if not figure.ok]
    assert missed == []


def test_a_simulated_share_may_be_three_standard_errors_of_both_simulations_away() -> None:
    table = Simulated(0.05, 0.05, 2_000)
    assert matches("x", 120, 2_000, table).ok
    assert not matches("x", 150, 2_000, table).ok
    assert not matches("x", 55, 2_000, table).ok
    assert "(2000 runs)" in matches("x", 120, 2_000, table).unit


def test_false_alarms_may_exceed_their_bound_by_three_standard_errors_only() -> None:
    assert ceiling("x", 129, 2_000).ok
    assert not ceiling("x", 130, 2_000).ok


def test_a_promised_power_gets_no_allowance() -> None:
    assert floor("x", 50, 100, 0.5).ok
    assert not floor("x", 49, 100, 0.5).ok


def test_a_share_of_nothing_still_has_an_error() -> None:
    assert standard_error(0.0, 1_000) > 0.0
