"""The confidence sequences keep their promise under peeking, and give the published numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from services.releases.verdict.intervals import (
    Sample,
    always_valid_p,
    difference,
    mixture_interval,
    mixture_multiplier,
    pool,
    rate_interval,
    rate_log_wealth,
    tuning,
)

PRIOR = (1.0, 3.0)
REPETITIONS = 2_000
PEEKING_LIMIT = 0.05 + 3 * math.sqrt(0.05 * 0.95 / REPETITIONS)


def crossing_shares(draw: object, pairs: int, first: int, seed: int) -> tuple[float, float]:
    """Shares of null experiments that a naive z test and the mixture sequence reject at any look."""
    generator = np.random.default_rng(seed)
    looks = np.arange(1, pairs + 1)
    rho, naive, sequence = tuning(0.05, 2.0 * 1_000), 0, 0
    multipliers = np.array([mixture_multiplier(2.0 * n, 0.05, rho) for n in looks])
    for _ in range(REPETITIONS):
        canary, control = draw(generator, pairs), draw(generator, pairs)  # type: ignore[operator]  # a test callable
        error, estimate = np.zeros(pairs), np.zeros(pairs)
        for values, sign in ((canary, 1.0), (control, -1.0)):
            mean = np.cumsum(values) / looks
            estimate += sign * mean
            error += (np.cumsum(values**2) / looks - mean**2) / np.maximum(looks - 1, 1)
        z = np.abs(estimate[first:]) / np.sqrt(np.maximum(error[first:], 1e-300))
        naive += bool((z > 1.96).any())
        sequence += bool((z > multipliers[first:]).any())
    return naive / REPETITIONS, sequence / REPETITIONS


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("normal", lambda generator, n: generator.normal(size=n)),
        ("exponential", lambda generator, n: generator.exponential(size=n)),
        ("bernoulli", lambda generator, n: (generator.random(n) < 0.02).astype(float)),
    ],
)
def test_looking_after_every_pair_fools_a_z_test_but_not_the_mixture_sequence(name: str, draw: object) -> None:
    naive, sequence = crossing_shares(draw, pairs=2_000, first=100, seed=20261130)
    assert naive > 0.25, name
    assert sequence <= PEEKING_LIMIT, name


def test_the_sequence_is_1549_thousandths_of_a_fixed_interval_at_its_tuned_size() -> None:
    width = mixture_multiplier(2_000, 0.05, tuning(0.05, 2_000)) / norm.ppf(0.975)
    assert width == pytest.approx(1.549, abs=0.0005)


def test_an_always_valid_p_value_agrees_with_its_interval() -> None:
    rho = tuning(0.05, 300)
    edge = mixture_multiplier(300, 0.05, rho)
    assert always_valid_p(edge, 300, rho) == pytest.approx(0.05)
    assert always_valid_p(0.0, 300, rho) == 1.0


def test_events_of_one_device_are_not_independent_evidence() -> None:
    """Trap 1: 400 devices an arm, 14 days of 10 events, correlation .2; the unit must be the device."""
    generator = np.random.default_rng(7)
    on_events, on_devices, repetitions = 0, 0, 200
    for _ in range(repetitions):
        own = generator.normal(scale=math.sqrt(0.2), size=(2, 400))
        crossed = [False, False]
        total = np.zeros((2, 400))
        for day in range(1, 15):
            events = own[:, :, None] + generator.normal(scale=math.sqrt(0.8), size=(2, 400, 10))
            total += events.sum(axis=2)
            means = total / (day * 10)
            part = difference(Sample.of(means[0]), Sample.of(means[1]), 0.0)
            crossed[1] |= _excludes_zero(mixture_interval(part, 0.05, 800))
            spread = 1.0 / (400 * 10 * day)
            crossed[0] |= abs(part.estimate) > math.sqrt(2 * spread) * mixture_multiplier(
                8_000 * day, 0.05, tuning(0.05, 112_000)
            )
        on_events += crossed[0]
        on_devices += crossed[1]
    assert on_events / repetitions > 0.3
    assert on_devices / repetitions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)


def test_a_rare_crash_with_no_event_yet_is_not_certainty() -> None:
    """Trap 2: crash rate .2 %, 60 looks; zero observed crashes make an estimated variance lie."""
    generator = np.random.default_rng(11)
    naive, exact, repetitions, looks, step = 0, 0, 400, 60, 333
    rho = tuning(0.05, looks * step)
    for _ in range(repetitions):
        crashes = np.cumsum(generator.binomial(step, 0.002, size=looks))
        devices = step * np.arange(1, looks + 1)
        share = crashes / devices
        error = np.sqrt(share * (1 - share) / devices)
        reach = np.array([mixture_multiplier(n, 0.05, rho) for n in devices]) * error
        naive += bool((np.abs(share - 0.002) > reach).any())
        wealth = [rate_log_wealth(int(c), int(n), 0.002, PRIOR) for c, n in zip(crashes, devices, strict=True)]
        exact += max(wealth) > -math.log(0.05)
    assert naive / repetitions > 0.3
    assert exact / repetitions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)


def test_a_rate_interval_covers_the_truth_at_every_look() -> None:
    generator = np.random.default_rng(3)
    missed = 0
    for _ in range(500):
        failures = np.cumsum(generator.random(300) < 0.02)
        wealth = max(rate_log_wealth(int(f), n, 0.02, PRIOR) for n, f in enumerate(failures, start=1))
        missed += wealth > -math.log(0.05)
    assert missed / 500 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


def test_a_rate_interval_inverts_its_martingale() -> None:
    interval = rate_interval(3, 40, 0.05, PRIOR)
    for edge in (interval.lower, interval.upper):
        assert rate_log_wealth(3, 40, edge, PRIOR) == pytest.approx(-math.log(0.05), abs=1e-6)
    assert interval.lower < interval.estimate < interval.upper


@pytest.mark.parametrize(("failures", "devices"), [(0, 0), (0, 9), (9, 9), (1, 1), (0, 10_000), (10_000, 10_000)])
def test_a_rate_interval_stays_within_zero_and_one(failures: int, devices: int) -> None:
    interval = rate_interval(failures, devices, 0.002, PRIOR)
    assert 0.0 <= interval.lower <= interval.upper <= 1.0


def test_more_failures_than_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="3 failures of 2 devices"):
        rate_interval(3, 2, 0.05, PRIOR)


def test_a_sample_without_spread_keeps_the_least_believable_spread() -> None:
    flat = Sample.of(np.zeros(20))
    interval = mixture_interval(difference(flat, flat, minimum_sd=0.01), 0.05, 300)
    assert interval.lower < 0.0 < interval.upper


def test_a_handful_of_devices_pays_for_its_estimated_spread() -> None:
    few = mixture_interval(difference(Sample(3, 0.0, 1.0), Sample(3, 0.0, 1.0), 0.0), 0.05, 300)
    normal = math.sqrt(2 / 3) * mixture_multiplier(6, 0.05, tuning(0.05, 300))
    assert few.upper > 2 * normal
    many = mixture_interval(difference(Sample(300, 0.0, 1.0), Sample(300, 0.0, 1.0), 0.0), 0.05, 300)
    normal = math.sqrt(2 / 300) * mixture_multiplier(600, 0.05, tuning(0.05, 300))
    assert many.upper == pytest.approx(normal, rel=0.02)


def test_the_order_of_devices_does_not_change_a_bit() -> None:
    values = np.random.default_rng(5).exponential(size=1_000)
    assert Sample.of(values) == Sample.of(values[::-1])


def test_pooling_weighs_strata_by_devices_and_not_by_outcome() -> None:
    part = difference(Sample(10, 1.0, 1.0), Sample(10, 0.0, 1.0), 0.0)
    other = difference(Sample(10, 3.0, 9.0), Sample(10, 0.0, 9.0), 0.0)
    pooled = pool([(5.0, part), (5.0, other)])
    assert pooled.estimate == pytest.approx(2.0)
    assert pooled.squared_error == pytest.approx((part.squared_error + other.squared_error) / 4)


def _excludes_zero(interval: object) -> bool:
    return not interval.lower <= 0.0 <= interval.upper  # type: ignore[attr-defined]  # Interval, kept short
