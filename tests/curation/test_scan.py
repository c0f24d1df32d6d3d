"""The scan of many points gives scikit-learn's labels, leaves no neighbour out and says so when it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles, make_moons

from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import NotClustered, RecallTooLow, TooManyPoints, cluster_points
from services.curation.domain.scan.audit import recall
from services.curation.domain.scan.blocks import cut_into_blocks
from services.curation.domain.scan.candidates import candidates
from services.curation.domain.scan.clusters import Clusters, find_clusters, grow_clusters, settled
from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import frame_of
from services.curation.domain.scan.grown import Grown
from services.curation.domain.scan.growth import Growth
from services.curation.domain.scan.layout import lay_out
from services.curation.domain.scan.limits import SCAN_LIMITS, ScanLimits
from services.curation.domain.scan.pairs import Pairs, Patch

TINY = replace(
    SCAN_LIMITS, block=4, chunk=8, rows=8, sample=8, probe=8, direction_share=6, terms=(1, 2), group=3, crowded=1
)
"""Limits under which a few dozen points go through every branch."""


def reference(vectors: np.ndarray, eps: float, min_samples: int) -> DBSCAN:
    return DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute").fit(vectors)


def scanned(vectors: np.ndarray, eps: float, min_samples: int, limits: ScanLimits = TINY) -> list[int]:
    collapsed = collapse(vectors.astype(np.float32))
    found = find_clusters(collapsed.rows, collapsed.weights, eps, min_samples, limits)
    return found.labels[collapsed.index].tolist()


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda width: arrays(np.float32, st.tuples(st.integers(1, 60), st.just(width)), elements=st.integers(0, 6))
    ),
    st.sampled_from([0.5, 1.0, 1.5, 2.0, 9.0]),
    st.integers(2, 7),
)
def test_labels_of_the_scan_equal_scikit_learns_on_grids(vectors: np.ndarray, eps: float, min_samples: int) -> None:
    assert scanned(vectors, eps, min_samples) == reference(vectors, eps, min_samples).labels_.tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 150),
    st.sampled_from([2, 3, 8, 40]),
    st.floats(0.05, 2.0),
    st.integers(2, 8),
    st.sampled_from([0.0, 3.0, 1000.0]),
)
def test_labels_of_the_scan_equal_scikit_learns_on_clouds(
    seed: int, count: int, width: int, share: float, min_samples: int, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, width))
    vectors = (centres[rng.integers(0, 5, count)] + 0.3 * rng.normal(size=(count, width)) + offset).astype(np.float32)
    eps = share * 0.3 * np.sqrt(2 * width)
    assert scanned(vectors, eps, min_samples) == reference(vectors, eps, min_samples).labels_.tolist()


@pytest.mark.parametrize("limits", [TINY, SCAN_LIMITS], ids=["tiny", "real"])
@pytest.mark.parametrize("shape", ["sparse", "dense"])
def test_core_points_borders_and_noise_equal_scikit_learns_on_unit_vectors(limits: ScanLimits, shape: str) -> None:
    rng = np.random.default_rng(8)
    centres = unit(rng.normal(size=(100 if shape == "sparse" else 3, 16)))
    near = unit(centres[rng.integers(0, len(centres), 900)] + 0.25 * rng.normal(size=(900, 16)) / 4)
    vectors = np.concatenate([near, unit(rng.normal(size=(300, 16)))]).astype(np.float32)
    wanted = reference(vectors, 0.3, 6)
    found = find_clusters(vectors, np.ones(1_200, dtype=np.int64), 0.3, 6, limits)
    assert found.labels.tolist() == wanted.labels_.tolist()
    assert np.flatnonzero(found.core).tolist() == wanted.core_sample_indices_.tolist()
    assert np.count_nonzero(~found.core & (found.labels >= 0)) > 0


@pytest.mark.parametrize(
    ("rows", "eps", "min_samples"),
    [
        (load_iris().data, 0.5, 5),
        (load_wine().data, 30.0, 5),
        (load_breast_cancer().data, 60.0, 5),
        (load_digits().data, 20.0, 5),
        (make_moons(600, noise=0.05, random_state=0)[0], 0.1, 5),
        (make_circles(600, noise=0.02, factor=0.5, random_state=0)[0], 0.1, 5),
    ],
    ids=["iris", "wine", "breast-cancer", "digits", "moons", "circles"],
)
def test_labels_equal_scikit_learns_on_the_sets_it_ships(rows: np.ndarray, eps: float, min_samples: int) -> None:
    vectors = rows.astype(np.float32)
    wanted = reference(vectors, eps, min_samples).labels_
    assert wanted.max() >= 0
    assert scanned(vectors, eps, min_samples, SCAN_LIMITS) == wanted.tolist()


def test_a_border_point_between_two_clusters_belongs_to_the_first() -> None:
    line = np.array([[x, 0.0] for x in (5.0, 5.1, 5.2, 4.9, 4.0, 3.1, 3.0, 2.9, 2.8)], dtype=np.float32)
    assert scanned(line, 0.95, 4) == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert scanned(line[::-1], 0.95, 4) == [0, 0, 0, 0, 0, 1, 1, 1, 1]


def test_a_weight_makes_a_lone_point_core() -> None:
    points = np.array([[0.0, 0.0], [9.0, 0.0], [9.5, 0.0]], dtype=np.float32)
    found = find_clusters(points, np.array([5, 4, 1]), 1.0, 5, TINY)
    assert (found.labels.tolist(), found.core.tolist()) == ([0, 1, 1], [True, True, True])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.sampled_from([2, 8, 40]), st.floats(0.01, 3.0))
def test_no_neighbour_is_left_out_of_the_candidates(seed: int, count: int, width: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(count, width)) * rng.uniform(0.01, 2, size=(count, 1))).astype(np.float32)
    layout = lay_out(vectors, eps, TINY)
    wide = vectors.astype(np.float64)
    near = np.linalg.norm(wide[:, None] - wide[None], axis=-1) <= eps
    near = near[np.ix_(layout.order, layout.order)]
    for first in range(0, layout.blocks, TINY.group):
        blocks = range(first, min(first + TINY.group, layout.blocks))
        for block, places in zip(blocks, candidates(layout, blocks, TINY), strict=True):
            wanted = np.flatnonzero(near[layout.places(block)].any(axis=0))
            assert set(wanted[wanted >= layout.starts[block + 1]].tolist()) <= set(places.tolist())


def test_blocks_hold_every_point_once() -> None:
    vectors = np.random.default_rng(2).normal(size=(500, 6)).astype(np.float32)
    blocks = cut_into_blocks(vectors, frame_of(vectors, TINY), 0.1, TINY)
    assert sorted(blocks.order.tolist()) == list(range(500))
    assert max(np.diff(blocks.starts)) <= TINY.block


def test_distant_outliers_and_large_numbers_do_not_blur_the_rest() -> None:
    rng = np.random.default_rng(4)
    vectors = np.concatenate([rng.normal(size=(200, 5)), [[3e7, 0, 0, 0, 0]], [[-3e30, 0, 0, 0, 0]]]).astype(np.float32)
    assert scanned(vectors, 0.9, 4) == reference(vectors, 0.9, 4).labels_.tolist()


def test_a_vector_that_is_not_finite_is_refused_by_name() -> None:
    vectors = np.zeros((5, 2), dtype=np.float32)
    vectors[3, 1] = np.nan
    with pytest.raises(ValueError, match="vector 3"):
        find_clusters(vectors, np.ones(5, dtype=np.int64), 1.0, 2)


def test_the_audit_honours_the_truth_and_notices_lost_pairs() -> None:
    vectors = np.random.default_rng(1).normal(size=(400, 2)).astype(np.float32)
    weights, wanted = np.ones(400, dtype=np.int64), reference(vectors, 0.3, 5)
    core = np.isin(np.arange(400), wanted.core_sample_indices_)
    assert recall(vectors, weights, 0.3, 5, Clusters(wanted.labels_, core)) == 1.0
    torn = np.where((vectors[:, 0] > 0) & (wanted.labels_ >= 0), wanted.labels_ + 50, wanted.labels_)
    assert recall(vectors, weights, 0.3, 5, Clusters(torn, core)) < 0.99
    assert recall(vectors, weights, 0.3, 5, Clusters(np.full(400, -1), core)) < 0.1
    assert recall(vectors, weights, 0.3, 5, Clusters(wanted.labels_, np.zeros(400, dtype=np.bool_))) < 0.5


def test_a_scan_that_loses_pairs_fails_the_run() -> None:
    def lossy(vectors: np.ndarray, weights: np.ndarray, eps: float, min_samples: int, *_: None) -> Grown:
        return grow_clusters(vectors, weights, eps / 2, min_samples)

    vectors = np.random.default_rng(1).normal(size=(400, 2)).astype(np.float32)
    with pytest.raises(RecallTooLow, match=r"at least 0\.99"):
        cluster_points(collapse(vectors), 0.3, 5, 1_000, direct_points=100, scan=lossy)


def test_the_scan_takes_over_above_the_limit_and_gives_the_same_labels() -> None:
    vectors = np.random.default_rng(3).normal(size=(3_000, 3)).astype(np.float32).repeat(2, axis=0)
    direct = cluster_points(collapse(vectors), 0.25, 6, 10_000)
    scan = cluster_points(collapse(vectors), 0.25, 6, 10_000, direct_points=10)
    assert direct.labels.tolist() == scan.labels.tolist()
    assert scan.recall == 1.0


def test_neighbourhoods_that_cannot_be_remembered_are_refused_before_any_work() -> None:
    vectors = np.arange(60_000, dtype=np.float32).reshape(30_000, 2)
    with pytest.raises(TooManyPoints, match="choose min_samples up to 3333"):
        cluster_points(collapse(vectors), 0.1, 10_000, 50_000)
    assert issubclass(TooManyPoints, NotClustered)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_the_forest_joins_what_a_walk_would_reach(edges: list[tuple[int, int]]) -> None:
    forest, sets = Forest(31), {n: {n} for n in range(31)}
    left, right = (np.array(side, dtype=np.int64) for side in (zip(*edges, strict=True) if edges else ([], [])))
    forest.unite(left, right)
    for one, other in edges:
        joined = sets[one] | sets[other]
        sets.update(dict.fromkeys(joined, joined))
    assert forest.roots(np.arange(31)).tolist() == [min(sets[n]) for n in range(31)]


def test_collapse_tells_rows_apart_whose_keys_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "services.curation.domain.collapse._keys", lambda vectors: np.zeros(len(vectors), dtype=np.uint64)
    )
    vectors = np.array([[2, 2], [1, 1], [2, 2]], dtype=np.float32)
    collapsed = collapse(vectors)
    assert (collapsed.rows.tolist(), collapsed.weights.tolist()) == ([[2, 2], [1, 1]], [2, 1])
    assert collapsed.index.tolist() == [0, 1, 0]


def test_zero_and_minus_zero_are_one_row() -> None:
    assert len(collapse(np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32)).rows) == 1


@given(arrays(np.bool_, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_a_crowded_comparison_joins_exactly_what_its_pairs_join(near: np.ndarray) -> None:
    rows, columns = np.arange(near.shape[0]), near.shape[0] + np.arange(near.shape[1])
    left, right = (side.astype(np.int64) for side in np.nonzero(near))
    labels = []
    for found in (Patch(rows, columns, near), Pairs(rows[left], columns[right])):
        growth = Growth(np.full(sum(near.shape), 2), 2)
        growth.add(found)
        labels.append(settled(growth.grown(np.arange(sum(near.shape)))).labels.tolist())
    assert labels[0] == labels[1]
