"""The cap on diameter, and what is kept when duplicates go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import cluster_labels
from services.curation.domain.plan import Segments, make_plan
from services.curation.domain.shape import cap_diameter, shape_of, split_to_radius
from services.curation.domain.survivors import choose_survivors
from services.curation.limits import CurationSettings


def chain(length: int, step: float) -> np.ndarray:
    vectors = np.zeros((length, 32), dtype=np.float32)
    vectors[:, 0] = np.arange(length) * step
    return vectors


def segments(vectors: np.ndarray, scores: np.ndarray | None = None, source: str = "npu-4t") -> Segments:
    count = len(vectors)
    return Segments(
        ids=[f"s{index:04d}" for index in range(count)],
        vectors=vectors.astype(np.float32),
        scores=np.zeros(count) if scores is None else scores,
        sources=[source] * count,
        cohorts=[f"{source}/meeting"] * count,
    )


def test_a_chain_is_one_cluster_to_dbscan_and_several_under_the_cap() -> None:
    vectors = chain(100, 0.1)
    raw = cluster_labels(collapse(vectors), 0.25, 3, 1_000)
    assert raw.max() == 0
    capped = cap_diameter(vectors, raw, 0.5)
    assert capped.max() > 5
    for label in range(capped.max() + 1):
        members = vectors[capped == label]
        assert np.ptp(members[:, 0]) <= 2 * 0.5 + 1e-6


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=40),
    st.floats(0.1, 1.0),
)
def test_every_piece_is_tight_and_nothing_is_lost(rows: list[list[float]], cap: float) -> None:
    vectors = np.array(rows, dtype=np.float32)
    pieces = split_to_radius(vectors, cap)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(len(rows)))
    for piece in pieces:
        spread = np.linalg.norm(vectors[piece][:, None].astype(float) - vectors[piece][None], axis=-1)
        assert spread.max() <= 2 * cap + 1e-6


def test_a_tight_cluster_stays_whole() -> None:
    vectors = np.random.default_rng(0).normal(scale=0.01, size=(50, 32)).astype(np.float32)
    assert len(split_to_radius(vectors, 1.0)) == 1


def test_the_medoid_is_a_member() -> None:
    vectors = chain(5, 1.0)
    assert shape_of(vectors).medoid == 2
    assert shape_of(vectors).radius == 2.0


def test_the_medoid_and_the_hardest_stay_and_noise_always_does() -> None:
    labels = np.array([0] * 6 + [-1])
    scores = np.array([1, 5, 2, 4, 3, 0, 0], dtype=float)
    kept = choose_survivors(labels, [0], scores, list("abcdefg"), [["x"] * 7], 2, 0.99).kept
    assert kept.tolist() == [True, True, False, True, False, False, True]


def test_equal_scores_are_broken_by_id_not_by_order_of_arrival() -> None:
    labels, scores = np.zeros(4, dtype=np.int64), np.ones(4)
    first = choose_survivors(labels, [3], scores, ["d", "c", "b", "a"], [["x"] * 4], 1, 0.99).kept
    assert first.tolist() == [False, False, False, True]


def test_one_huge_cluster_does_not_wipe_out_a_device_class() -> None:
    labels = np.zeros(1_000, dtype=np.int64)
    scores = np.arange(1_000, dtype=float)
    sources = ["rare"] * 400 + ["common"] * 600
    survivors = choose_survivors(labels, [999], scores, [f"{i:04d}" for i in range(1_000)], [sources], 10, 0.95)
    assert survivors.guarded == ("common", "rare")
    assert survivors.kept[:400].sum() == 20
    assert survivors.kept[400:].sum() == 30
    assert survivors.kept[399], "the hardest of the source are the ones that stay"


def test_a_plan_is_the_same_whenever_it_is_made() -> None:
    rng = np.random.default_rng(3)
    vectors = np.concatenate([rng.normal(c, 0.02, size=(60, 32)) for c in (0.2, 0.6)])
    chosen = segments(vectors, rng.random(120))
    one, two = (make_plan(chosen, CurationSettings(), 20_000, 2_000) for _ in range(2))
    assert [c.members.tolist() for c in one.clusters] == [c.members.tolist() for c in two.clusters]
    assert one.kept.tolist() == two.kept.tolist()
    assert sum(len(c.members) for c in one.clusters) + one.noise == 120


def test_an_empty_window_is_a_plan_without_clusters() -> None:
    plan = make_plan(segments(np.zeros((0, 32))), CurationSettings(), 20_000, 2_000)
    assert plan.clusters == ()
    assert plan.noise == 0


def test_no_version_of_a_model_is_wiped_out_either() -> None:
    labels, scores = np.zeros(1_000, dtype=np.int64), np.arange(1_000, dtype=float)
    names, versions = [f"{i:04d}" for i in range(1_000)], ["vsr-1"] * 400 + ["vsr-2"] * 600
    survivors = choose_survivors(labels, [999], scores, names, [["npu-4t"] * 1_000, versions], 60, 0.95)
    assert survivors.guarded == ("vsr-1",)
    assert survivors.kept[:400].sum() == 20


def test_a_plan_guards_versions_of_the_model_too() -> None:
    count = 400
    alike = replace(
        segments(np.random.default_rng(0).normal(scale=0.001, size=(count, 32)), np.arange(count, dtype=float)),
        versions=["vsr-1"] * 100 + ["vsr-2"] * 300,
    )
    plan = make_plan(alike, CurationSettings(eps=0.1, keep_hardest=20), 20_000, 2_000)
    assert plan.guarded == ("vsr-1",)
    assert plan.kept[:100].sum() >= 5
