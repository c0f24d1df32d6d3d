"""Seq-Bootstrap: weights by device, sums that merge, paths that spend alpha."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.releases.verdict.resampling import HistogramSums, RatioSums, device_keys, device_weights
from services.releases.verdict.sequential_bootstrap import BootstrapPlan, PathState, look
from services.releases.verdict.spending import linear

PLAN = BootstrapPlan()
EDGES = np.linspace(0.0, 10.0, 101)


def weights_of(names: list[str], paths: int = PLAN.paths) -> np.ndarray:
    return device_weights(device_keys(names), paths, PLAN.seed)


def test_weights_are_poisson_of_mean_one_and_independent_between_paths() -> None:
    weights = weights_of([f"d{index}" for index in range(2_000)]).astype(float)
    shares = np.bincount(weights.astype(int).ravel(), minlength=4)[:4] / weights.size
    assert shares == pytest.approx([math.exp(-1) / math.factorial(k) for k in range(4)], abs=0.002)
    assert weights.var() == pytest.approx(1.0, abs=0.005)
    correlation = np.corrcoef(weights[:, :40], rowvar=False)[np.triu_indices(40, 1)]
    assert np.abs(correlation).max() < 5 / math.sqrt(2_000)


def test_a_device_has_the_same_weights_on_every_shard_and_others_under_another_seed() -> None:
    together, alone = weights_of(["a", "b", "c"]), weights_of(["b"])
    assert np.array_equal(together[1], alone[0])
    assert not np.array_equal(together[0], together[1])
    assert not np.array_equal(device_weights(device_keys(["b"]), PLAN.paths, 1)[0], alone[0])
    assert np.array_equal(weights_of(["b"], 10)[0], alone[0][:10])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 39), st.randoms(use_true_random=False))
def test_shards_merge_in_any_split_and_order(cut: int, random: object) -> None:
    names = [f"d{index}" for index in range(40)]
    values = np.random.default_rng(1).exponential(size=40)
    order = list(range(40))
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis's Random

    def ratio(rows: list[int]) -> RatioSums:
        return RatioSums.of(values[rows], np.ones(len(rows)), weights_of([names[row] for row in rows], 50))

    def histogram(rows: list[int]) -> HistogramSums:
        return HistogramSums.of(values[rows], weights_of([names[row] for row in rows], 50), EDGES)

    whole, parts = ratio(list(range(40))), ratio(order[:cut]) + ratio(order[cut:])
    assert parts.statistic()[1] == pytest.approx(whole.statistic()[1], rel=1e-5)
    assert np.array_equal((histogram(order[:cut]) + histogram(order[cut:])).paths, histogram(list(range(40))).paths)


def test_a_quantile_of_a_histogram_is_within_a_bin_of_the_quantile_of_the_values() -> None:
    values = np.random.default_rng(2).gamma(2.0, 1.0, 3_000)
    sums = HistogramSums.of(values, weights_of([f"d{i}" for i in range(3_000)], 200), EDGES)
    for share in (0.5, 0.95, 0.99):
        seen, paths = sums.quantile(share)
        assert seen == pytest.approx(float(np.quantile(values, share)), abs=0.1)
        assert float(paths.mean()) == pytest.approx(seen, abs=0.15)


def test_values_beyond_the_edges_stay_in_the_outer_bins() -> None:
    sums = HistogramSums.of(np.array([-5.0, 99.0]), weights_of(["a", "b"], 20), EDGES)
    assert sums.seen[0] == sums.seen[-1] == 1.0
    assert 0.0 <= sums.quantile(0.01)[0] <= sums.quantile(0.99)[0] <= 10.0


def test_histograms_with_different_edges_do_not_merge() -> None:
    one = HistogramSums.of(np.ones(1), weights_of(["a"], 5), EDGES)
    with pytest.raises(ValueError, match="different edges"):
        one + HistogramSums.of(np.ones(1), weights_of(["a"], 5), EDGES * 2)


def test_the_spread_of_paths_is_the_standard_error_of_the_mean() -> None:
    values = np.random.default_rng(3).normal(size=2_000)
    seen, paths = RatioSums.of(values, np.ones(2_000), weights_of([f"d{i}" for i in range(2_000)])).statistic()
    assert seen == pytest.approx(values.mean())
    assert paths.std(ddof=1) == pytest.approx(values.std(ddof=1) / math.sqrt(2_000), rel=0.1)


def null_run(generator: np.random.Generator, plan: BootstrapPlan) -> tuple[bool, bool]:
    """Ten looks at flags of 2 % in both arms: crossed by paths, crossed by naive percentiles."""
    state, crossed, naive = PathState.fresh(plan), False, False
    arms = [RatioSums(np.zeros(2), np.zeros((2, plan.paths))) for _ in range(2)]
    for at in range(1, 11):
        for arm in range(2):
            flags = int(generator.binomial(300, 0.02))
            up, down = generator.poisson(flags, plan.paths), generator.poisson(300 - flags, plan.paths)
            arms[arm] += RatioSums(np.array([flags, 300.0]), np.stack([up, up + down]))
        (new, new_paths), (old, old_paths) = (arm.statistic() for arm in arms)
        found = look(state, new - old, new_paths - old_paths, at / 10, plan)
        state = found.state
        crossed |= found.excludes(0.0)
        low, high = np.quantile(new_paths - old_paths, [0.025, 0.975])
        naive |= not low <= 0.0 <= high
    return crossed, naive


def test_ten_looks_fool_percentile_intervals_but_not_paths_that_spend_alpha() -> None:
    generator, runs = np.random.default_rng(20261130), 200
    found = [null_run(generator, PLAN) for _ in range(runs)]
    assert sum(crossed for crossed, _ in found) / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert sum(naive for _, naive in found) / runs > 0.12


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 20), min_size=1, max_size=6, unique=True))
def test_paths_never_spend_more_than_is_allowed_by_then(seed: int, ticks: list[int]) -> None:
    generator, state = np.random.default_rng(seed), PathState.fresh(PLAN)
    for tick in sorted(ticks):
        found = look(state, 0.0, generator.standard_normal(PLAN.paths), tick / 20, PLAN)
        assert np.all(found.state.crossed >= state.crossed), "a path that crossed has crossed"
        state = found.state
        assert state.spent <= linear(tick / 20, PLAN.alpha) + 1e-12


def test_without_information_nothing_is_certain_and_nothing_is_spent() -> None:
    state = PathState.fresh(PLAN)
    for estimate, paths in ((math.nan, np.full(PLAN.paths, np.nan)), (0.0, np.zeros(PLAN.paths))):
        found = look(state, estimate, paths, 0.5, PLAN)
        assert not found.excludes(0.0)
        assert (found.interval.lower, found.interval.upper) == (-math.inf, math.inf)
        assert found.state == state


def test_paths_without_a_value_count_as_crossed_and_widen_the_interval() -> None:
    paths = np.random.default_rng(1).standard_normal(PLAN.paths)
    paths[:100] = np.nan
    assert look(PathState.fresh(PLAN), 5.0, paths, 1.0, PLAN).interval.lower == -math.inf


def test_a_second_look_at_the_same_evidence_says_the_same_and_spends_nothing() -> None:
    paths = np.random.default_rng(1).standard_normal(PLAN.paths)
    first = look(PathState.fresh(PLAN), 0.0, paths, 0.5, PLAN)
    again = look(first.state, 0.0, paths, 0.5, PLAN)
    assert again.interval == first.interval
    assert again.state.spent == first.state.spent == pytest.approx(25 / 1001)


def test_a_look_uses_the_rank_that_makes_the_chance_of_passing_it_what_may_be_spent() -> None:
    paths = np.random.default_rng(1).standard_normal(PLAN.paths)
    found = look(PathState.fresh(PLAN), 0.0, paths, 0.1, PLAN)
    ordered = np.sort(np.abs(paths) / found.error)[::-1]
    assert found.critical == pytest.approx(ordered[4]), "the fifth of a thousand: passed with chance 5 / 1001"
    assert found.state.crossed.sum() == found.state.ranks == 5, "the path on the boundary is spent too"


def test_a_look_that_may_not_spend_one_rank_says_nothing() -> None:
    plan = BootstrapPlan(alpha=0.005)
    state = PathState.fresh(plan)
    assert not state.due(0.1, plan)
    assert state.due(0.3, plan)
    found = look(state, 9.0, np.random.default_rng(1).standard_normal(plan.paths), 0.1, plan)
    assert found.interval.lower == -math.inf
    assert found.state.spent == 0.0


def test_equal_paths_spend_no_more_ranks_than_allowed() -> None:
    found = look(PathState.fresh(PLAN), 0.0, np.tile([-1.0, 1.0], PLAN.paths // 2), 0.1, PLAN)
    assert found.state.crossed.sum() == 5


def test_a_look_back_in_time_or_with_other_paths_is_refused() -> None:
    state = PathState(np.zeros(PLAN.paths, dtype=bool), 0.5)
    with pytest.raises(ValueError, match="never shrinks"):
        look(state, 0.0, np.zeros(PLAN.paths), 0.4, PLAN)
    with pytest.raises(ValueError, match="keep the plan"):
        look(state, 0.0, np.zeros(3), 0.6, PLAN)
