"""A scan in parts gives the labels of one scan, whoever runs the parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN

from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import cluster_points
from services.curation.domain.scan.clusters import settled
from services.curation.domain.shards.cells import cut_into_cells
from services.curation.domain.shards.executor import Executor, Here
from services.curation.domain.shards.parts import ShardedScan
from services.curation.executors import NoExecutor, dask_executor, local_processes
from tests.curation.test_increment import cloud
from tests.curation.test_scan import TINY


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 120),
    st.sampled_from([1, 2, 3, 8, 20]),
    st.integers(1, 9),
    st.floats(0.05, 1.5),
    st.integers(2, 7),
)
def test_labels_do_not_depend_on_the_number_of_cells(
    seed: int, count: int, width: int, cells: int, eps: float, min_samples: int
) -> None:
    vectors = cloud(seed, count, width)
    weights = np.random.default_rng(seed).integers(1, 4, count)
    found = settled(ShardedScan(Here(), cells, TINY)(vectors, weights, eps, min_samples))
    wanted = DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute").fit(vectors, sample_weight=weights)
    assert found.labels.tolist() == wanted.labels_.tolist()
    assert np.flatnonzero(found.core).tolist() == wanted.core_sample_indices_.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.sampled_from([1, 3, 24]), st.integers(1, 12))
def test_every_point_is_in_one_cell_and_near_points_are_around_it(
    seed: int, count: int, width: int, cells: int
) -> None:
    vectors, eps = cloud(seed, count, width), 0.4
    cut = list(cut_into_cells(vectors, eps, cells, TINY))
    assert sorted(np.concatenate([cell.own for cell in cut]).tolist()) == list(range(count))
    near = np.linalg.norm(vectors[:, None].astype(float) - vectors[None], axis=-1) <= eps
    for cell in cut:
        around = set(cell.own.tolist()) | set(cell.halo.tolist())
        assert not set(cell.own.tolist()) & set(cell.halo.tolist())
        assert set(np.flatnonzero(near[cell.own].any(axis=0)).tolist()) <= around


def test_cells_are_of_nearly_equal_size_and_their_halos_small_where_points_spread() -> None:
    vectors = np.random.default_rng(5).uniform(size=(20_000, 3)).astype(np.float32)
    cut = list(cut_into_cells(vectors, 0.02, 8))
    assert [len(cell.own) for cell in cut] == [2_500] * 8
    assert max(len(cell.halo) for cell in cut) < 600


@pytest.fixture(params=["processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "processes":
        with local_processes(2) as made:
            yield made
        return
    distributed = pytest.importorskip("distributed", reason="the extra `scale` is not installed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        dask_executor(cluster.scheduler_address) as made,
    ):
        yield made


def test_real_executors_give_the_labels_of_scikit_learn(executor: Executor) -> None:
    rng = np.random.default_rng(6)
    vectors = np.concatenate([rng.normal(c, 0.3, size=(900, 6)) for c in (0.0, 1.0, 3.0)]).astype(np.float32)
    scan = ShardedScan(executor, 5)
    found = cluster_points(collapse(vectors), 0.45, 5, 10_000, direct_points=0, scan=scan)
    wanted = DBSCAN(eps=0.45, min_samples=5, algorithm="brute").fit_predict(vectors)
    assert found.labels.tolist() == wanted.tolist()
    assert found.recall == 1.0


def test_a_vector_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        ShardedScan(Here(), 2)(np.full((3, 2), np.nan, np.float32), np.ones(3, np.int64), 1.0, 2)


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.curation.executors.import_module", lambda _: _silent())
    with pytest.raises(NoExecutor, match="tcp://nowhere:1"), dask_executor("tcp://nowhere:1"):
        pass


def test_without_the_extra_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("services.curation.executors.import_module", missing)
    with pytest.raises(NoExecutor, match="extra `scale`"), dask_executor("tcp://here:1"):
        pass


def _silent() -> object:
    class Silent:
        def Client(self, *_: object, **__: object) -> None:  # Dask's name
            raise TimeoutError("no answer in 10 s")

    return Silent()
