"""Planned looks: published decimals, and what must hold for every plan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from benchmarks.judging.boundaries import (
    crossing,
    equally_spaced,
    fixed_drift,
    shaped_boundaries,
    spending_boundaries,
)
from services.releases.verdict.spending import Spending, linear, obrien_fleming, pocock

ALPHA = 0.05
SPENDINGS = (obrien_fleming, pocock, linear)


@pytest.mark.parametrize(
    ("looks", "share"),
    [(1, 0.05), (2, 0.0831), (5, 0.1417), (10, 0.1934), (20, 0.2479), (50, 0.3204), (100, 0.3736)],
)
def test_repeated_tests_at_196_err_as_often_as_the_classic_table_says(looks: int, share: float) -> None:
    found = crossing(equally_spaced(looks), [-float(ndtri(ALPHA / 2))] * looks).sum()
    assert found == pytest.approx(share, abs=0.0001)


@pytest.mark.parametrize(
    ("spending", "published"),
    [
        (obrien_fleming, (4.3326, 2.9631, 2.3590, 2.0141)),
        (obrien_fleming, (4.8769, 3.3570, 2.6803, 2.2898, 2.0310)),
        (obrien_fleming, (6.99135, 4.8769, 3.9297, 3.3671, 2.9893, 2.7148, 2.5041, 2.3358, 2.1975, 2.0812)),
        (pocock, (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_spending_boundaries_agree_with_published_tables_to_three_decimals(
    spending: Spending, published: tuple[float, ...]
) -> None:
    found = spending_boundaries(equally_spaced(len(published)), ALPHA, spending)
    assert found == pytest.approx(published, abs=0.0005)


def test_the_first_boundary_is_the_closed_form_quantile_of_what_may_be_spent() -> None:
    first = spending_boundaries(equally_spaced(10), ALPHA, obrien_fleming)[0]
    assert first == pytest.approx(-float(ndtri(obrien_fleming(0.1, ALPHA) / 2)), abs=1e-12)
    assert first == pytest.approx(6.991351707, abs=1e-8)  # from 40 digits of arithmetic


@pytest.mark.parametrize(
    ("looks", "even", "falling"),
    [
        (2, 2.1783, 1.9774),
        (3, 2.2895, 2.0040),
        (4, 2.3613, 2.0243),
        (5, 2.4132, 2.0401),
        (10, 2.5550, 2.0865),
    ],
)
def test_classic_boundaries_agree_with_published_tables(looks: int, even: float, falling: float) -> None:
    assert shaped_boundaries(equally_spaced(looks), ALPHA, 0.0) == pytest.approx([even] * looks, abs=0.00005)
    assert shaped_boundaries(equally_spaced(looks), ALPHA, 0.5)[-1] == pytest.approx(falling, abs=0.00005)


@pytest.mark.parametrize(("spending", "power"), [(obrien_fleming, 0.785), (pocock, 0.702)])
def test_power_at_the_size_of_a_fixed_test_with_80_percent(spending: Spending, power: float) -> None:
    times = equally_spaced(10)
    found = crossing(times, spending_boundaries(times, ALPHA, spending), fixed_drift(ALPHA, 0.8)).sum()
    assert found == pytest.approx(power, abs=0.0005)


def test_one_look_at_the_end_is_the_fixed_test() -> None:
    only = spending_boundaries([1.0], ALPHA, obrien_fleming)
    assert only == pytest.approx([1.959964], abs=1e-6)
    assert crossing([1.0], only, fixed_drift(ALPHA, 0.8)).sum() == pytest.approx(0.8, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=8, unique=True),
    st.sampled_from(SPENDINGS),
    st.sampled_from([0.001, 0.05, 0.2]),
)
def test_whatever_the_looks_the_boundaries_spend_what_is_allowed_and_no_more(
    ticks: list[int], spending: Spending, alpha: float
) -> None:
    times = [tick / 200 for tick in sorted(ticks)]
    spent = np.cumsum(crossing(times, spending_boundaries(times, alpha, spending)))
    assert spent == pytest.approx([spending(time, alpha) for time in times], abs=1e-7)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(SPENDINGS))
def test_spending_never_falls_and_ends_at_alpha(one: float, other: float, spending: Spending) -> None:
    early, late = sorted((one, other))
    assert 0.0 <= spending(early, ALPHA) <= spending(late, ALPHA) + 1e-15 <= ALPHA + 1e-12
    assert spending(1.0, ALPHA) == pytest.approx(ALPHA)
    assert spending(2.0, ALPHA) == spending(1.0, ALPHA)


def test_a_hundred_looks_keep_the_promise_although_the_first_may_spend_almost_nothing() -> None:
    bounds = spending_boundaries(equally_spaced(100), ALPHA, obrien_fleming)
    assert np.isfinite(bounds).all()
    assert crossing(equally_spaced(100), bounds).sum() == pytest.approx(ALPHA, abs=1e-6)


@pytest.mark.parametrize("times", [[0.5, 0.5], [0.5, 0.2], [0.0, 1.0], [0.5, 1.1], [math.nan], []])
def test_looks_that_do_not_rise_within_the_plan_are_refused(times: list[float]) -> None:
    with pytest.raises(ValueError, match=r"rise strictly|a plan has"):
        spending_boundaries(times, ALPHA, linear)


def test_a_time_that_is_no_number_spends_nothing_silently() -> None:
    with pytest.raises(ValueError, match="information time"):
        linear(math.nan, ALPHA)
