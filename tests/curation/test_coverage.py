"""Coverage: what counts as near, and how sure the share is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.wire.curation import CoverageState
from services.curation.domain.coverage import (
    cluster_coverage,
    eps_cov,
    nearest_distance,
    tightened,
    wilson_interval,
)


def judged(distances: list[float], eps: float = 1.0) -> CoverageState:
    return cluster_coverage(np.array(distances), eps, 0.95, 0.5).state


def test_near_is_measured_between_videos_never_within_one() -> None:
    twins = np.array([[0, 0], [0, 0], [3, 4], [3, 4]], dtype=np.float32)
    assert eps_cov(twins, ["a", "a", "b", "b"]) == pytest.approx(5.0)


def test_one_video_cannot_tell_what_is_near() -> None:
    assert eps_cov(np.zeros((3, 2), dtype=np.float32), ["a", "a", "a"]) is None
    assert tightened(None, None, 0.1) == 0.1


def test_a_far_outlier_in_a_new_training_set_does_not_loosen_what_is_near() -> None:
    assert tightened(own=50.0, inherited=0.4, default=0.1) == 0.4
    assert tightened(own=0.2, inherited=0.4, default=0.1) == 0.2


def test_states_follow_the_share_of_members_reached() -> None:
    assert judged([0.5] * 20) is CoverageState.COVERED
    assert judged([0.5] * 19 + [2.0]) is CoverageState.COVERED
    assert judged([0.5] * 18 + [2.0] * 2) is CoverageState.PARTIAL
    assert judged([0.5] * 9 + [2.0] * 11) is CoverageState.UNCOVERED


def test_nothing_is_near_an_empty_training_set() -> None:
    empty = np.zeros((0, 2), dtype=np.float32)
    assert np.isinf(nearest_distance(np.zeros((3, 2), dtype=np.float32), empty)).all()
    assert judged([np.inf, np.inf]) is CoverageState.UNCOVERED


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (0, 0, 0.0, 1.0)],
)
def test_wilson_interval_equals_published_values(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(hits, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_stays_within_0_and_1(case: tuple[int, int]) -> None:
    hits, trials = case
    low, high = wilson_interval(hits, trials)
    assert 0.0 <= low <= hits / trials + 1e-12
    assert hits / trials - 1e-12 <= high <= 1.0
