"""Guards whose wealth has mean 1 while nothing is wrong: crash odds, betting, sample ratio, worst stratum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom, nchypergeom_fisher

from services.releases.verdict import betting, sample_ratio
from services.releases.verdict.alarm import Cell, mean_log_e, rate_log_e, worst_strata
from services.releases.verdict.crashes import (
    LOG_ODDS,
    CrashEvidence,
    CrashTable,
    harm_log_wealth,
    odds_interval,
)
from services.releases.verdict.intervals import Difference, Interval, gated, rate_log_wealth

PRIOR = (1.0, 3.0)


def seen(*tables: CrashTable) -> CrashEvidence:
    evidence = CrashEvidence()
    for table in tables:
        evidence = evidence.add(table)
    return evidence


@pytest.mark.parametrize(("canary", "control", "events"), [(10, 990, 4), (100, 900, 10), (333, 32_967, 20), (5, 3, 8)])
def test_the_mean_wealth_against_equal_crash_odds_is_one(canary: int, control: int, events: int) -> None:
    law = hypergeom(canary + control, events, canary)
    total = 0.0
    for crashed in range(max(0, events - control), min(canary, events) + 1):
        table = CrashTable(crashed, canary, events - crashed, control)
        total += law.pmf(crashed) * math.exp(harm_log_wealth(seen(table)))
    assert total == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("odds", [0.25, 1.0, 1.9])
def test_a_canary_within_the_margin_earns_no_wealth_on_average(odds: float) -> None:
    law = nchypergeom_fisher(1_000, 10, 100, odds)
    wealth = [math.exp(harm_log_wealth(seen(CrashTable(x, 100, 10 - x, 900)), 2.0)) for x in range(11)]
    assert float(np.dot(law.pmf(np.arange(11)), wealth)) <= 1.0 + 1e-9


def test_the_conditional_likelihood_is_fishers_noncentral_hypergeometric() -> None:
    table, place = CrashTable(3, 100, 7, 900), 180
    gained = seen(table).log_likelihood[place]
    law = nchypergeom_fisher(1_000, 10, 100, math.exp(LOG_ODDS[place]))
    assert gained == pytest.approx(law.logpmf(3) - hypergeom(1_000, 10, 100).logpmf(3), abs=1e-6)


def test_no_crash_yet_is_neither_harm_nor_certainty() -> None:
    evidence = seen(CrashTable(0, 333, 0, 33_000))
    assert harm_log_wealth(evidence) == pytest.approx(0.0)
    assert odds_interval(evidence, 0.05).lower == 0.0
    assert odds_interval(evidence, 0.05).upper == math.inf


def test_looks_strata_and_shards_add_up_in_any_order() -> None:
    tables = [CrashTable(1, 30, 2, 300), CrashTable(0, 50, 1, 100), CrashTable(4, 20, 3, 900)]
    forward, backward = seen(*tables), seen(*reversed(tables))
    sharded = seen(tables[1]) + seen(tables[2], tables[0])
    assert forward.log_likelihood == pytest.approx(backward.log_likelihood)
    assert forward.log_likelihood == pytest.approx(sharded.log_likelihood)
    assert forward.crashes == sharded.crashes == 11


def test_a_fivefold_crash_rate_is_certain_within_a_few_hundred_canaries_and_lies_in_its_interval() -> None:
    evidence = seen(*[CrashTable(3, 333, 66, 33_000)] * 5)
    assert harm_log_wealth(evidence) > -math.log(0.05)
    interval = odds_interval(evidence, 0.05)
    assert 1.0 < interval.lower < 4.6 < interval.upper
    assert interval.lower <= interval.estimate <= interval.upper


def test_impossible_or_frequent_crashes_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="3 crashes of 2 devices"):
        CrashTable(3, 2, 0, 5)
    with pytest.raises(ValueError, match="use the mixture sequence"):
        CrashTable(15_000, 20_000, 15_000, 20_000)
    with pytest.raises(ValueError, match="odds margin"):
        harm_log_wealth(seen(), 0.0)


def test_betting_on_flags_has_mean_one_at_the_true_rate_and_less_below_it() -> None:
    def mean_wealth(rate: float, against: float) -> float:
        flags = [np.r_[np.ones(k), np.zeros(40 - k)] for k in range(41)]
        return float(
            sum(binom(40, rate).pmf(k) * math.exp(betting.log_wealth(f, against)) for k, f in enumerate(flags))
        )

    assert mean_wealth(0.02, 0.02) == pytest.approx(1.0, abs=1e-9)
    assert mean_wealth(0.01, 0.02) < 1.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), max_size=60), st.randoms(use_true_random=False))
def test_a_betting_bound_lies_below_the_mean_in_any_order(values: list[float], random: object) -> None:
    bound = betting.mean_lower_bound(np.array(values), 0.05)
    random.shuffle(values)  # type: ignore[attr-defined]  # hypothesis's Random
    assert bound == betting.mean_lower_bound(np.array(values), 0.05)
    assert 0.0 <= bound <= (float(np.mean(values)) if values else 0.0) + 1e-12


def test_a_betting_bound_is_refuted_just_below_and_not_above() -> None:
    values = np.r_[np.full(40, 0.3), np.zeros(60)]
    bound = betting.mean_lower_bound(values, 0.05)
    assert betting.log_wealth(values, bound) == pytest.approx(-math.log(0.05), abs=1e-6)
    assert 0.05 < bound < 0.12


@pytest.mark.parametrize("values", [[-0.1], [1.1], [math.nan]])
def test_betting_refuses_values_outside_its_bounds(values: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        betting.log_wealth(np.array(values), 0.5)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_sample_ratio_martingale_has_mean_one(share: float) -> None:
    law = binom(60, share)
    total = sum(law.pmf(k) * math.exp(sample_ratio.log_wealth(k, 60 - k, share)) for k in range(61))
    assert total == pytest.approx(1.0)


def test_a_split_as_planned_is_no_mismatch_and_a_broken_one_is() -> None:
    assert not sample_ratio.sample_ratio(51, 949, 0.05).mismatch()
    assert not sample_ratio.sample_ratio(0, 0, 0.05).mismatch()
    assert sample_ratio.sample_ratio(4_700, 5_300, 0.5).mismatch()
    assert sample_ratio.sample_ratio(1, 99, 0.0).mismatch()
    assert "4700 of 10000 devices are canaries, 50 %" in sample_ratio.sample_ratio(4_700, 5_300, 0.5).words()


@pytest.mark.parametrize("counts", [(-1, 5, 0.5), (1, -5, 0.5), (1, 5, 1.5)])
def test_a_sample_ratio_of_impossible_counts_is_refused(counts: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="never negative"):
        sample_ratio.sample_ratio(*counts)


@pytest.mark.parametrize("margin", [0.02, 0.3])
def test_the_mean_e_value_of_a_rate_at_its_margin_is_one_and_less_below(margin: float) -> None:
    def mean_e(rate: float) -> float:
        return float(sum(binom(50, rate).pmf(k) * math.exp(rate_log_e(k, 50, margin, PRIOR)) for k in range(51)))

    assert mean_e(margin) == pytest.approx(1.0)
    assert mean_e(margin / 2) < 1.0


def test_a_one_sided_rate_bet_beats_the_two_sided_one_when_there_is_harm() -> None:
    assert rate_log_e(12, 50, 0.02, PRIOR) > rate_log_wealth(12, 50, 0.02, PRIOR)


def test_the_mean_e_value_of_a_difference_at_its_margin_is_one() -> None:
    z = np.linspace(-30.0, 30.0, 6_001)  # under the mixture z is spread four times as wide
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    values = [math.exp(mean_log_e(Difference(float(one), 1.0, 600, math.inf), 0.0, 300.0)) for one in z]
    assert float(np.trapezoid(density * values, z)) == pytest.approx(1.0, abs=0.01)


def test_a_small_stratum_pays_for_its_estimated_spread() -> None:
    small = mean_log_e(Difference(5.0, 1.0, 6, 4.0), 0.0, 300.0)
    assert small < mean_log_e(Difference(5.0, 1.0, 6, math.inf), 0.0, 300.0)
    assert mean_log_e(Difference(0.0, 0.0, 0, 1.0), 0.0, 300.0) == 0.0


def test_many_harmed_strata_help_each_other_to_be_named() -> None:
    bar = math.log(20)  # one cell alone of eight needs log(8 / .05)
    alone = [Cell("m", "a", bar + 1.0), *[Cell("m", f"x{i}", 0.0) for i in range(7)]]
    together = [Cell("m", f"h{i}", bar + 1.0) for i in range(4)] + [Cell("m", f"x{i}", 0.0) for i in range(4)]
    assert worst_strata(alone, 0.05).named == ()
    assert {cell.stratum for cell in worst_strata(together, 0.05).named} == {"h0", "h1", "h2", "h3"}


@given(st.lists(st.floats(-20.0, 20.0), max_size=12), st.randoms(use_true_random=False))
def test_the_alarm_names_the_worst_cells_first_in_any_order(logs: list[float], random: object) -> None:
    cells = [Cell("m", f"s{index}", value) for index, value in enumerate(logs)]
    alarm = worst_strata(cells, 0.05)
    random.shuffle(cells)  # type: ignore[attr-defined]  # hypothesis's Random
    assert worst_strata(cells, 0.05) == alarm
    assert [cell.log_e for cell in alarm.named] == sorted((cell.log_e for cell in alarm.named), reverse=True)
    assert all(cell.log_e >= math.log(1 / 0.05) - 1e-9 for cell in alarm.named)
    assert (alarm.worst is None) == (not cells)


def test_a_gated_interval_bounds_nothing_before_enough_events() -> None:
    interval = Interval(1.0, 0.5, 1.5)
    assert gated(interval, 10, 10) is interval
    assert gated(interval, 9, 10) == Interval(1.0, -math.inf, math.inf)
