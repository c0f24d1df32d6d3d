"""Clustering gives scikit-learn's labels, whatever is collapsed on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN
from sklearn.datasets import make_blobs, make_moons

from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import TooManyPoints, cluster_labels
from services.curation.domain.epsilon import choose_epsilon

NOISY = np.random.default_rng(0)


def reference(vectors: np.ndarray, eps: float, min_samples: int) -> np.ndarray:
    return DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute").fit_predict(vectors)


@settings(max_examples=60, deadline=None)
@given(
    grid=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=80),
    eps=st.sampled_from([0.5, 1.0, 1.5]),
    min_samples=st.integers(2, 6),
)
def test_labels_equal_scikit_learns_with_many_duplicates(
    grid: list[tuple[int, int]], eps: float, min_samples: int
) -> None:
    vectors = np.array(grid, dtype=np.float32).reshape(-1, 2)
    found = cluster_labels(collapse(vectors), eps + 1e-3, min_samples, 1_000)
    if len(vectors):
        assert found.tolist() == reference(vectors, eps + 1e-3, min_samples).tolist()
    else:
        assert len(found) == 0


@pytest.mark.parametrize("seed", range(3))
def test_labels_equal_scikit_learns_on_dense_clusters_of_repeats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distinct, _ = make_blobs(300, centers=6, n_features=32, cluster_std=0.05, random_state=seed)
    vectors = distinct[rng.integers(0, 300, size=2_000)].astype(np.float32)
    assert cluster_labels(collapse(vectors), 0.4, 5, 20_000).tolist() == reference(vectors, 0.4, 5).tolist()


def test_collapse_gives_the_rows_back_and_counts_them() -> None:
    vectors = np.array([[2, 2], [1, 1], [2, 2], [0, 0], [1, 1], [2, 2]], dtype=np.float32)
    collapsed = collapse(vectors)
    assert collapsed.rows[collapsed.index].tolist() == vectors.tolist()
    assert collapsed.rows[:, 0].tolist() == [2, 1, 0]
    assert collapsed.weights.tolist() == [3, 2, 1]


def test_a_window_that_cannot_fit_is_refused_before_any_work() -> None:
    vectors = np.arange(200, dtype=np.float32).reshape(100, 2)
    with pytest.raises(TooManyPoints, match="at most 99"):
        cluster_labels(collapse(vectors), 0.1, 5, 99)


def test_repeats_of_one_picture_do_not_count_as_points() -> None:
    vectors = np.repeat(np.array([[1.0, 2.0]], dtype=np.float32), 5_000, axis=0)
    assert cluster_labels(collapse(vectors), 0.1, 5, 10).tolist() == [0] * 5_000


@pytest.mark.parametrize("seed", range(4))
def test_the_radius_read_from_the_data_separates_planted_clusters(seed: int) -> None:
    planted, truth = make_blobs(400, centers=5, n_features=32, cluster_std=0.02, center_box=(0, 1), random_state=seed)
    noise = np.random.default_rng(seed).uniform(0, 1, size=(40, 32))
    vectors = np.concatenate([planted, noise]).astype(np.float32)
    collapsed = collapse(vectors)
    epsilon = choose_epsilon(collapsed, 5, floor=0.02, ceiling=2.0, largest_sample=2_000)
    labels = cluster_labels(collapsed, epsilon.value, 5, 20_000)
    assert epsilon.source == "knee"
    assert labels.max() == 4
    assert (labels[400:] == -1).all()
    assert all(len(set(truth[labels[:400] == label])) == 1 for label in range(5))
    assert (labels[:400] >= 0).mean() > 0.8


def test_shapes_that_are_no_balls_are_followed() -> None:
    moons, truth = make_moons(400, noise=0.03, random_state=1)
    labels = cluster_labels(collapse(moons.astype(np.float32)), 0.2, 5, 20_000)
    assert labels.max() == 1
    assert len(set(zip(labels.tolist(), truth.tolist(), strict=True))) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_data_without_a_curve_fall_back_to_the_floor(count: int) -> None:
    same = np.ones((count, 32), dtype=np.float32)
    epsilon = choose_epsilon(collapse(same), 5, floor=0.02, ceiling=0.5, largest_sample=100)
    assert (epsilon.value, epsilon.source) == (0.02, "floor")


def test_data_far_apart_stop_at_the_ceiling() -> None:
    far = np.eye(32, dtype=np.float32) * 100
    assert choose_epsilon(collapse(far), 5, floor=0.02, ceiling=0.5, largest_sample=100).source == "ceiling"
