"""False alarms at their nominal rate, and real shifts found: the promise of the drift test, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.wire.drift import DriftState
from services.drift.domain.hotelling import hotelling_test, sigma_of
from services.drift.domain.reference import Reference, gap_covariance, gap_law, pooled_spread
from services.drift.domain.verdict import judge, measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings
from tests.drift.fleet import Fleet, device_frames, mean_votes

SUBSPACE = 28


def p_values(seed: int, repeats: int, cohorts: int, devices: int, widths: tuple[float, ...]) -> np.ndarray:
    """Return p of every cohort on a healthy day after two reference days; devices are drawn afresh each
    day.
    """
    fleet, settings = Fleet(seed, frames=6, rho=0.8), DriftSettings(min_devices=20, min_freedom=60)
    rng, found = fleet.generator(), []
    level = rng.normal(size=(cohorts, SUBSPACE))
    for _ in range(repeats):
        day = [
            [mean_votes(device_frames(rng, fleet, devices, widths[c], level[c]).mean(axis=1)) for _ in range(3)]
            for c in range(cohorts)
        ]
        references = [Reference.of_days(days[:2]) for days in day]
        spread = pooled_spread(references)
        for days, reference in zip(day, references, strict=True):
            verdict = measure(days[2], reference, spread, settings)
            assert verdict.p is not None
            found.append(verdict.p)
    return np.array(found)


@pytest.mark.parametrize(("cohorts", "devices"), [(4, 50), (4, 100), (2, 80)])
def test_healthy_days_alarm_at_the_nominal_rate(cohorts: int, devices: int) -> None:
    p = p_values(seed=7, repeats=1000 // cohorts, cohorts=cohorts, devices=devices, widths=(1.0,) * cohorts)
    assert 0.5 * 0.05 <= np.mean(p < 0.05) <= 2 * 0.05
    assert np.mean(p < 0.01) <= 2 * 0.01 + 2 * np.sqrt(0.01 / len(p))
    assert np.mean(p < 2.33e-4) <= 2.33e-4 + 3 / len(p)


def test_a_cohort_that_is_wider_than_the_others_alarms_no_more_often() -> None:
    p = p_values(seed=8, repeats=250, cohorts=4, devices=75, widths=(0.6, 0.8, 1.0, 1.6))
    wide = p.reshape(-1, 4)[:, 3]
    assert np.mean(wide < 0.05) <= 2 * 0.05
    assert 0.5 * 0.05 <= np.mean(p < 0.05) <= 2 * 0.05


def test_devices_that_stay_from_day_to_day_make_the_test_only_more_careful() -> None:
    fleet, rng, found = Fleet(9), np.random.default_rng(9), []
    for _ in range(200):
        stay = rng.normal(size=(4, 75, SUBSPACE)) * np.sqrt(fleet.between)
        days = [[mean_votes(who + 0.5 * rng.normal(size=who.shape)) for who in stay] for _ in range(3)]
        references = [Reference.of_days([days[0][c], days[1][c]]) for c in range(4)]
        spread = pooled_spread(references)
        found += [measure(days[2][c], references[c], spread, DriftSettings()).z for c in range(4)]
    assert max(z for z in found if z is not None) < 3.5


def test_half_a_standard_deviation_spread_over_all_directions_is_found_with_200_devices() -> None:
    rng = np.random.default_rng(10)
    shift = np.full(SUBSPACE, 0.5 / np.sqrt(SUBSPACE))
    found = []
    for _ in range(60):
        cohorts = {name: rng.normal(size=(3, 200, SUBSPACE)) * np.sqrt(0.5) for name in "abc"}
        references = {n: Reference.of_days([mean_votes(d[0]), mean_votes(d[1])]) for n, d in cohorts.items()}
        spread = pooled_spread(list(references.values()))
        today = {n: mean_votes(d[2] + (shift if n == "a" else 0)) for n, d in cohorts.items()}
        settings = DriftSettings()
        verdicts = judge({n: measure(today[n], references[n], spread, settings) for n in today}, settings)
        found.append(verdicts["a"].state in (DriftState.WARN, DriftState.SEVERE))
        assert verdicts["b"].state is DriftState.STABLE
    assert np.mean(found) >= 0.95


def test_counting_frames_as_the_sample_would_cry_wolf() -> None:
    """The mistake this design avoids: 60 autocorrelated frames of a device are no 60 witnesses."""
    fleet = Fleet(11, frames=60)
    rng = fleet.generator()
    z = []
    for _ in range(10):
        reference = device_frames(rng, fleet, 60, 1.0, np.zeros(SUBSPACE)).reshape(-1, SUBSPACE)
        current = device_frames(rng, fleet, 60, 1.0, np.zeros(SUBSPACE)).reshape(-1, SUBSPACE)
        days = Reference.of_days([mean_votes(reference)])
        z.append(measure(mean_votes(current), days, pooled_spread([days]), DriftSettings()).z)
    assert all(value is not None and value > 3.5 for value in z)


def test_each_side_brings_its_own_size_into_the_covariance_of_the_gap() -> None:
    rng = np.random.default_rng(12)
    narrow = Reference.of_days([mean_votes(0.5 * rng.normal(size=(300, SUBSPACE)))])
    wide = Reference.of_days([mean_votes(2.0 * rng.normal(size=(300, SUBSPACE)))])
    spread = pooled_spread([narrow, wide])
    today = mean_votes(1.0 * rng.normal(size=(100, SUBSPACE)))
    for reference, variance in ((narrow, 0.25), (wide, 4.0)):
        expected = 1.0 / 100 + variance / 300
        found = np.trace(gap_covariance(today, reference, spread)) / SUBSPACE
        assert found == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("tail", ["heavy components", "heavy devices", "a wide day"])
def test_heavy_tails_and_restless_days_do_not_raise_the_rate(tail: str) -> None:
    rng, found = np.random.default_rng(13), []

    def draw(day: int) -> Votes:
        x = rng.normal(size=(75, SUBSPACE))
        if tail == "heavy components":
            x = rng.standard_t(5, size=x.shape)
        if tail == "heavy devices":
            x = x / np.sqrt(rng.chisquare(4, size=(75, 1)) / 4)
        return mean_votes(x * (1.6 if tail == "a wide day" and day == 2 else 1.0))

    for _ in range(250):
        days = [[draw(day) for day in range(3)] for _ in range(4)]
        references = [Reference.of_days(cohort[:2]) for cohort in days]
        spread = pooled_spread(references)
        found += [measure(days[c][2], references[c], spread, DriftSettings()).p for c in range(4)]
    assert np.mean([p < 0.05 for p in found if p is not None]) <= 2 * 0.05


def test_a_size_known_from_few_devices_is_paid_for() -> None:
    """Without it, cohorts of 20 devices alarmed at twice the nominal rate of 3.5 sigma."""
    rng = np.random.default_rng(14)
    references = [Reference.of_days([mean_votes(rng.normal(size=(20, SUBSPACE))) for _ in range(2)]) for _ in range(16)]
    spread = pooled_spread(references)
    few, many = mean_votes(rng.normal(size=(20, SUBSPACE))), mean_votes(rng.normal(size=(2_000, SUBSPACE)))
    law = gap_law(few, references[0], spread)
    sizes = [gap_law(mean_votes(rng.normal(size=(20, SUBSPACE))), references[0], spread).covariance for _ in range(300)]
    seen = np.var([np.trace(one) for one in sizes]) / np.mean([np.trace(one) for one in sizes]) ** 2
    assert law.scale_variance > seen  # `seen` leaves out what the reference adds
    assert law.scale_variance == pytest.approx(seen, rel=0.5)
    assert gap_law(many, references[0], spread).scale_variance < law.scale_variance
    gap = np.full(SUBSPACE, 0.45)
    paid = hotelling_test(gap, law.covariance, spread.freedom, law.scale_variance)
    assert paid.p > hotelling_test(gap, law.covariance, spread.freedom).p


def test_sigma_is_the_normal_quantile_with_the_same_tail() -> None:
    assert sigma_of(2.3262907903552504e-4) == pytest.approx(3.5, abs=1e-6)
    assert sigma_of(0.5) == pytest.approx(0.0)
    assert sigma_of(0.0) == 38.0


def test_votes_of_identical_devices_give_no_number_from_nothing() -> None:
    still = Votes.empty()
    for _ in range(100):
        still = still.merge(Votes.of(np.zeros(SUBSPACE), np.ones((8, 16), dtype=np.int64), 0.0))
    reference = Reference.of_days([still, still, still, still])
    verdict = measure(still, reference, pooled_spread([reference]), DriftSettings())
    assert verdict.z is not None
    assert verdict.z < 0
    assert verdict.d == 0
