"""Observer parameters: deterministic bytes, and refusal of anything else."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.statistics import ObserverError, ObserverParameters


def parameters(seed: int = 0) -> ObserverParameters:
    rng = np.random.default_rng(seed)
    return ObserverParameters(
        embedding_id="q-test",
        mu0=rng.normal(size=256).astype(np.float32),
        sd0=rng.uniform(0.5, 2, 256).astype(np.float32),
        projection=(rng.normal(size=(28, 256)) / 16).astype(np.float32),
        directions=(rng.normal(size=(8, 256)) / 16).astype(np.float32),
        edges=np.tile(np.linspace(-2, 2, 15, dtype=np.float32), (8, 1)),
        score_w=rng.normal(size=256).astype(np.float32),
        score_b=0.5,
        tau=1.0,
    )


def test_parameters_survive_the_round_trip() -> None:
    data = parameters().to_bytes()
    back = ObserverParameters.from_bytes(data)
    assert back.embedding_id == "q-test"
    assert np.array_equal(back.projection, parameters().projection)
    assert back.to_bytes() == data


def test_bins_are_found_by_the_edges() -> None:
    observer = parameters()
    _, bins = observer.project(np.zeros(256))
    assert set(bins.tolist()) == {7}


def test_far_values_are_clipped_and_counted() -> None:
    z, clipped = parameters().standardize(np.full(256, 1e6, np.float32))
    assert clipped
    assert np.abs(z).max() == 8.0


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 nothing", parameters().to_bytes()[:-40]])
def test_damaged_files_are_refused(data: bytes) -> None:
    with pytest.raises(ObserverError):
        ObserverParameters.from_bytes(data)


def test_a_spread_of_zero_is_refused() -> None:
    observer = parameters()
    observer.sd0[3] = 0
    with pytest.raises(ObserverError, match="sd0"):
        ObserverParameters.from_bytes(observer.to_bytes())
