"""Points that come later: the outcome is that of clustering everything at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN

from services.curation.domain.known import Known, extended, id_array
from services.curation.domain.plan import Means, Plan, Segments, make_plan
from services.curation.domain.scan import clusters
from services.curation.domain.scan.clusters import grow_clusters, settled
from services.curation.domain.scan.grown import Grown, positions_without
from services.curation.domain.scan.limits import SCAN_LIMITS
from services.curation.domain.scan.pairs import PairTest
from services.curation.limits import CurationSettings
from tests.curation.test_scan import TINY


def cloud(seed: int, count: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, width))
    rows = centres[rng.integers(0, 4, count)] + 0.4 * rng.normal(size=(count, width))
    rows[rng.random(count) < 0.2] = rows[0]  # repeats, of one day and of several
    return rows.astype(np.float32)


def in_days(
    vectors: np.ndarray, weights: np.ndarray, day: np.ndarray, eps: float, min_samples: int, limits: object = TINY
) -> Grown:
    """Insert the points of each day into what the days before gave; positions keep the order of all points."""
    known: Grown | None = None
    for today in np.unique(day):
        here = np.flatnonzero(day <= today)
        fresh = np.flatnonzero(day[here] == today)
        known = grow_clusters(vectors[here], weights[here], eps, min_samples, fresh, known, limits)  # type: ignore[arg-type]
    assert known is not None
    return known


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 120),
    st.sampled_from([1, 2, 3, 8]),
    st.integers(1, 5),
    st.floats(0.1, 1.5),
    st.integers(2, 7),
)
def test_daily_inserts_give_the_labels_of_a_full_run(
    seed: int, count: int, width: int, days: int, eps: float, min_samples: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors, weights = cloud(seed, count, width), rng.integers(1, 4, count)
    found = settled(in_days(vectors, weights, rng.integers(0, days, count), eps, min_samples))
    wanted = DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute").fit(vectors, sample_weight=weights)
    assert found.labels.tolist() == wanted.labels_.tolist()
    assert np.flatnonzero(found.core).tolist() == wanted.core_sample_indices_.tolist()


def test_a_border_point_turns_core_and_joins_what_it_lay_between() -> None:
    line = np.array([[0.0], [0.1], [0.2], [1.1], [2.0], [2.1], [2.2], [1.15]], dtype=np.float32)
    weights = np.ones(8, dtype=np.int64)
    first = grow_clusters(line[:7], weights[:7], 0.92, 4, limits=TINY)
    assert settled(first).labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    joined = grow_clusters(line, weights, 0.92, 4, np.array([7]), first, TINY)
    assert settled(joined).labels.tolist() == [0] * 8


def test_what_is_known_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    class Counting(PairTest):
        def between(self, rows, columns):  # type: ignore[no-untyped-def]
            compared.append(len(rows) * len(columns))
            return super().between(rows, columns)

    vectors = cloud(1, 2_000, 4)
    weights, day = np.ones(2_000, dtype=np.int64), np.repeat([0, 1], [1_900, 100])
    known = grow_clusters(vectors[:1_900], weights[:1_900], 0.3, 4)
    monkeypatch.setattr(clusters, "PairTest", Counting)
    grow_clusters(vectors, weights, 0.3, 4, np.flatnonzero(day == 1), known)
    assert sum(compared) <= 100 * 2_000


def test_a_day_without_segments_changes_nothing() -> None:
    vectors, weights = cloud(2, 50, 3), np.ones(50, dtype=np.int64)
    known = grow_clusters(vectors, weights, 0.5, 4, limits=TINY)
    again = grow_clusters(vectors, weights, 0.5, 4, np.zeros(0, dtype=np.int64), known, TINY)
    assert again is known


def test_what_is_kept_stays_small_where_all_points_are_near_each_other() -> None:
    vectors = (0.01 * np.random.default_rng(3).normal(size=(3_000, 8))).astype(np.float32)
    known = grow_clusters(vectors, np.ones(3_000, dtype=np.int64), 1.0, 5, limits=SCAN_LIMITS)
    assert len(known.left) <= 5 * 3_000
    assert settled(known).labels.max() == 0


@pytest.mark.parametrize(
    "broken",
    [
        Grown(2, np.ones(3, np.int32), np.zeros(2, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)),
        Grown(2, np.ones(3, np.int32), np.full(3, 3, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)),
        Grown(2, np.ones(3, np.int32), np.zeros(3, np.int32), np.full(1, -1, np.int32), np.zeros(1, np.int32)),
        Grown(2, np.ones(3, np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32)),
    ],
)
def test_a_kept_clustering_that_contradicts_itself_is_refused(broken: Grown) -> None:
    with pytest.raises(ValueError, match="kept clustering"):
        broken.check()


def test_positions_that_are_not_fresh_keep_their_order() -> None:
    assert positions_without(6, np.array([4, 1])).tolist() == [0, 2, 3, 5]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 80), st.integers(1, 4))
def test_a_plan_that_adds_a_day_is_the_plan_of_all_days(seed: int, count: int, days: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = CurationSettings(eps=0.5, min_samples=3)
    vectors, day = np.pad(cloud(seed, count, 3), ((0, 0), (0, 29))), rng.integers(0, days, count)
    names = np.array([f"s{number:05d}" for number in rng.permutation(count)])
    day[0] = 0
    order = np.argsort(names)
    vectors, day, names, scores = vectors[order], day[order], names[order], rng.random(count)

    def until(today: int, known: Known | None) -> Plan:
        here = day <= today
        asked = Segments(names[here].tolist(), vectors[here], scores[here], ["a"] * here.sum(), ["a/b"] * here.sum())
        return make_plan(asked, chosen, 10_000, 100, known, Means(direct_points=0))

    known: Known | None = None
    for today in range(days):
        plan = until(today, known)
        known = plan.known
    whole = until(days, None)
    assert plan.kept.tolist() == whole.kept.tolist()
    assert [c.members.tolist() for c in plan.clusters] == [c.members.tolist() for c in whole.clusters]
    assert known is not None
    known.check()
    assert plan.inserted == (None if days == 1 else np.count_nonzero(day == days - 1))


def test_a_segment_that_is_gone_makes_a_run_begin_anew() -> None:
    vectors = np.pad(cloud(4, 60, 3), ((0, 0), (0, 29)))
    names = [f"s{number:05d}" for number in range(60)]
    known = id_array(names), np.arange(60, dtype=np.int32)
    whole = grow_clusters(vectors, np.ones(60, dtype=np.int64), 0.5, 3)
    assert extended(Known(*known, 0.5, whole), names[1:], vectors[1:]) is None
    assert extended(Known(*known, 0.5, whole), names, vectors) is not None
