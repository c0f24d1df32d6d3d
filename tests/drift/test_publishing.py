"""Published aggregates: noise has the law that the proof is about, and the promise is the one that is named."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from services.drift.domain.discrete_gaussian import add_noise, discrete_gaussian, discrete_laplace
from services.drift.domain.privacy_loss import Budget, composed, delta_of, epsilon_of, rho_of
from services.drift.domain.publishing import GRID, LEAST_DEVICES, SENSITIVITY, publish, sigma_squared_for
from services.drift.opendp_noise import opendp_noise


def below(seed: int):  # type: ignore[no-untyped-def]  # a seeded twin of secrets.randbelow
    random = np.random.default_rng(seed)
    return lambda n: int(random.integers(n))


def discrete_law(sigma_squared: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma_squared))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("sigma_squared", [Fraction(1, 2), Fraction(4), Fraction(37, 3)])
def test_samples_follow_the_discrete_gaussian_law(sigma_squared: Fraction) -> None:
    source = below(3)
    found = np.array([discrete_gaussian(sigma_squared, source) for _ in range(8_000)])
    reach = max(2, math.ceil(2.5 * math.sqrt(sigma_squared)))
    law = discrete_law(float(sigma_squared), 60)[60 - reach : 61 + reach]
    counts = np.array([(found == x).sum() for x in range(-reach, reach + 1)])
    expected = np.r_[law, 1 - law.sum()] * len(found)
    assert stats.chisquare(np.r_[counts, len(found) - counts.sum()], expected).pvalue > 1e-3


def test_discrete_laplace_has_its_known_variance() -> None:
    source = below(4)
    found = np.array([discrete_laplace(5, source) for _ in range(8_000)])
    ratio = math.exp(-1 / 5)
    assert np.var(found) == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=0.08)


def test_noise_is_integer_and_new_every_time() -> None:
    once, again = (add_noise([10, 20], Fraction(10_000)) for _ in range(2))
    assert all(isinstance(value, int) for value in once)
    assert once != again


def test_named_epsilon_and_delta_hold_for_the_exact_law_of_the_noise() -> None:
    """The privacy loss of a count between two neighbouring cohorts, summed over every outcome."""
    budget = Budget(1.0, 1e-6)
    steps = 3
    spread = steps**2 / (2 * rho_of(budget))
    reach = int(40 * math.sqrt(spread))
    x = np.arange(-reach, reach + 1)
    here, there = (np.exp(-((x - shift) ** 2) / (2 * spread)) for shift in (0, steps))
    here, there = here / here.sum(), there / there.sum()
    spent = np.maximum(here - math.exp(budget.epsilon) * there, 0).sum()
    assert spent <= budget.delta
    assert spent > budget.delta / 50, "the noise is not much larger than needed either"


@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.5, 9.86), (1.0, 5.10), (2.0, 2.65), (4.0, 1.40)])
def test_noise_is_at_most_an_eighth_above_the_analytic_gaussian(epsilon: float, multiplier: float) -> None:
    ours = 1.0 / math.sqrt(2.0 * rho_of(Budget(epsilon, 1e-8)))
    assert multiplier <= ours <= 1.125 * multiplier


def test_translation_goes_both_ways_and_thirty_releases_cost_about_six() -> None:
    budget = Budget(1.0, 1e-8)
    rho = rho_of(budget)
    assert epsilon_of(rho, 1e-8) == pytest.approx(1.0, abs=1e-3)
    assert delta_of(rho, 1.0) <= 1e-8
    assert composed(budget, 30).epsilon == pytest.approx(6.19, abs=0.05)


def test_one_device_changes_no_more_than_the_sensitivity() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        one = random.dirichlet(np.full(16, 0.05), 8)
        others = random.dirichlet(np.ones(16), (200, 8)).sum(0)
        with_it = np.rint(np.r_[201, (others + one).ravel()] * GRID)
        without = np.rint(np.r_[200, others.ravel()] * GRID)
        assert np.linalg.norm(with_it - without) <= SENSITIVITY


def test_a_published_day_is_near_the_truth_and_says_how_near() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(16), 8)
    day = publish(20_000, shares, Budget(1.0, 1e-8))
    assert day is not None
    assert (day.epsilon, day.delta) == (1.0, 1e-8)
    assert abs(day.devices - 20_000) < 6 * day.deviation
    assert np.abs(day.votes - 20_000 * shares).max() < 6 * day.deviation
    assert day.deviation == pytest.approx(math.sqrt(float(sigma_squared_for(Budget(1.0, 1e-8)))) / GRID)


def test_a_small_cohort_is_not_published() -> None:
    def still(values: list[int], sigma_squared: Fraction) -> list[int]:
        return list(values)

    shares = np.full((8, 16), 1 / 16)
    assert publish(LEAST_DEVICES - 1, shares, Budget(1.0, 1e-8), still) is None
    assert publish(LEAST_DEVICES, shares, Budget(1.0, 1e-8), still) is not None


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-8), (-1.0, 1e-8), (math.nan, 1e-8), (1.0, 0.0), (1.0, 0.5)])
def test_a_budget_that_promises_nothing_is_refused_with_the_remedy(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match=r"usual|less than one"):
        Budget(epsilon, delta)


def test_opendp_gives_noise_of_the_same_size() -> None:
    pytest.importorskip("opendp")
    found = np.array(opendp_noise([0] * 4_000, Fraction(900)))
    assert np.std(found) == pytest.approx(30.0, rel=0.06)
