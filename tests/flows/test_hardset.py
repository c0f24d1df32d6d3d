"""Stand-ins are accepted only when their own features fall inside the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from flows.data.corpus import Clip, Split, default_corpus
from flows.data.degrade import Degradation, receive
from flows.data.pairs import View, load_view
from flows.embedder import SegmentEmbedder
from flows.errors import FlowError
from flows.hardset import SearchSpace, TargetCluster, build_hard_set, training_vectors
from tests.support.models import quality_qdq

SMALL = SearchSpace(gains=(1.0, 0.45), noises=(0.0, 6.0), crfs=(22.0, 38.0), frames=6, local_rounds=1, keep=2)


@pytest.fixture(scope="module")
def embedder() -> SegmentEmbedder:
    return SegmentEmbedder(quality_qdq(seed=3))


@pytest.fixture(scope="module")
def clips() -> list[tuple[Clip, View]]:
    train = default_corpus().of(Split.TRAIN)
    return [(clip, View(scale=2, limit=6)) for clip in train if clip.video == "bikes"][:2]


def cluster_of(clips: list[tuple[Clip, View]], embedder: SegmentEmbedder, condition: Degradation) -> TargetCluster:
    clip, view = clips[0]
    high = load_view(clip, view)
    assert high is not None
    low = high.reshape(len(high), high.shape[1] // 2, 2, high.shape[2] // 2, 2, 3).mean(axis=(2, 4)).astype(np.uint8)
    return TargetCluster("c1", embedder.segments(receive(low, condition.with_seed(9), clip.fps)))


def test_the_condition_behind_a_cluster_is_found(clips: list[tuple[Clip, View]], embedder: SegmentEmbedder) -> None:
    cluster = cluster_of(clips, embedder, Degradation(gain=0.45, noise=6.0, crf=22.0))
    found = build_hard_set([cluster], clips, embedder, np.zeros((0, 32), np.float32), eps=0.05, space=SMALL)
    assert found.coverage_before == 0.0
    assert found.coverage_after == 1.0
    assert all(0.35 < stand_in.degradation.gain < 0.6 for stand_in in found.stand_ins)
    for stand_in in found.stand_ins:
        distances = np.linalg.norm(cluster.members[:, None] - stand_in.vectors[None], axis=2)
        assert distances.min() <= found.eps


def test_a_cluster_out_of_reach_is_reported_as_such(clips: list[tuple[Clip, View]], embedder: SegmentEmbedder) -> None:
    far = TargetCluster("far", np.full((3, 32), 9.0, np.float32))
    found = build_hard_set([far], clips, embedder, np.zeros((0, 32), np.float32), eps=0.05, space=SMALL)
    assert found.stand_ins == ()
    assert found.coverage_after == 0.0


def test_what_the_training_set_covers_already_needs_no_stand_in(
    clips: list[tuple[Clip, View]], embedder: SegmentEmbedder
) -> None:
    vectors = np.concatenate([one.vectors for one in training_vectors(clips, [Degradation()], embedder)])
    found = build_hard_set([TargetCluster("same", vectors[:2])], clips, embedder, vectors, eps=0.01, space=SMALL)
    assert found.coverage_before == 1.0
    assert found.stand_ins == ()


def test_searching_twice_gives_the_same(clips: list[tuple[Clip, View]], embedder: SegmentEmbedder) -> None:
    cluster = cluster_of(clips, embedder, Degradation(gain=0.45, noise=6.0))
    runs = [build_hard_set([cluster], clips, embedder, np.zeros((0, 32), np.float32), 0.05, SMALL) for _ in range(2)]
    assert [(s.clip, s.degradation) for s in runs[0].stand_ins] == [(s.clip, s.degradation) for s in runs[1].stand_ins]


def test_nothing_to_search_is_an_error(embedder: SegmentEmbedder) -> None:
    with pytest.raises(FlowError, match="at least one cluster"):
        build_hard_set([], [], embedder, np.zeros((0, 32), np.float32), 0.05)
