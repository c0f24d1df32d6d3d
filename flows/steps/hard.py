"""Second step: stand-ins for the hard clusters, and the pairs that training draws from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from flows.data.corpus import Clip, Split
from flows.data.degrade import NORMAL_VARIETY, Degradation, degrade
from flows.data.pairs import Pair, PairSet, View, load_view, make_pairs
from flows.data.texture import textured
from flows.embedder import SegmentEmbedder
from flows.errors import FlowError
from flows.hardset import HardSet, Landed, TargetCluster, Vectors, build_hard_set, training_vectors
from flows.medoids import medoids
from flows.run_folder import Json
from flows.steps.collect import target_clusters
from flows.steps.context import RunContext
from flows.tasks.vsr.material import HARD_VIEWS, NORMAL_VIEWS

NORMAL_CONDITIONS = NORMAL_VARIETY[::2]
MAX_CONDITIONS = 10
TRAINING_VIEWS = HARD_VIEWS[1:3]
VALIDATION_SEED = 1_000
TEXTURE_VIEWS = (View(1, 8, 8, (480, 640)), View(2, 6, 12), View(3, 6, 12))
TEXTURE_LIGHT = (Degradation(crf=20.0), Degradation(crf=23.0), Degradation(gain=0.5, crf=21.0))
VALIDATION_VIEWS = (View(2, 12, 2, (192, 192)), View(4, 12, 2))


@dataclass(frozen=True)
class TrainingPairs:
    """Pairs to train on and pairs set aside (same clips, other draws of noise and loss) to choose by."""

    normal: PairSet
    hard: PairSet
    normal_validation: PairSet
    hard_validation: PairSet


def find_hard_set(run: RunContext, collected: Json) -> Json:
    """Search stand-ins for every uncovered cluster; the JSON holds what later steps and people need."""
    embedder = SegmentEmbedder(run.parent.quality)
    present = parent_vectors(run, embedder)
    training = np.concatenate([landed.vectors for landed in present])
    clusters = target_clusters(collected)
    found = build_hard_set(
        clusters, run.training_clips, embedder, training, float(collected["eps"]),
        progress=lambda what, share: run.progress(f"hard set: {what}", share),
    )  # fmt: skip
    return _to_json(found, choose_conditions(found, clusters))


def parent_vectors(run: RunContext, embedder: SegmentEmbedder) -> list[Landed]:
    """Where the parent's training set lands: normal conditions, and what earlier runs added."""
    conditions = (*NORMAL_VARIETY, *(Degradation.from_json(text) for text in run.parent.conditions))
    return training_vectors(run.training_clips, conditions, embedder)


def hard_conditions(hard: Json) -> tuple[Degradation, ...]:
    """The conditions to train under, heaviest first."""
    return tuple(Degradation(**condition) for condition in hard["conditions"])


def choose_conditions(found: HardSet, clusters: Sequence[TargetCluster]) -> tuple[Degradation, ...]:
    """At most ten conditions of accepted stand-ins that together lie nearest to the members of all clusters.

    There are a hundred stand-ins that reached nearly equal numbers of members; the ten heaviest leave whole clusters
    far from any. Each condition is where its stand-ins land.
    """
    conditions = found.degradations
    if not conditions:
        return ()
    members = np.concatenate([cluster.members for cluster in clusters]).astype(np.float64)
    distances = np.stack([_nearest(members, _landed(found, condition)) for condition in conditions])
    return tuple(conditions[index] for index in medoids(distances, MAX_CONDITIONS))


def _landed(found: HardSet, condition: Degradation) -> Vectors:
    return np.concatenate([one.vectors for one in found.stand_ins if one.degradation == condition])


def _nearest(members: NDArray[np.float64], vectors: Vectors) -> NDArray[np.float64]:
    """[members]: distance to the nearest vector."""
    return np.asarray(np.linalg.norm(members[:, None] - vectors[None], axis=2).min(axis=1))


def training_pairs(run: RunContext, hard: Json) -> TrainingPairs:
    """Decode and degrade. Every training clip is taken through every hard condition, so that content never decides."""
    clips = run.corpus.of(Split.TRAIN)
    conditions = hard_conditions(hard)
    if not conditions:
        raise FlowError(
            f"none of {hard['tried']} (clip, degradation) pairs comes within {hard['eps']:.3f} of a member that the "
            "training set does not reach; add videos of other scenes to the corpus"
        )
    earlier = tuple(Degradation.from_json(text) for text in run.parent.conditions)
    run.progress("degrading clips", 0.2)
    normal = PairSet((*make_pairs(clips, NORMAL_CONDITIONS, NORMAL_VIEWS).pairs, *_textured_pairs(clips)))
    run.progress("degrading clips", 0.5)
    stressed = make_pairs(clips, (*conditions, *earlier), TRAINING_VIEWS)
    run.progress("degrading clips", 0.9)
    aside = (conditions[0].with_seed(VALIDATION_SEED),)
    return TrainingPairs(
        normal,
        stressed,
        make_pairs(clips, NORMAL_CONDITIONS[:1], VALIDATION_VIEWS),
        make_pairs(clips, aside, VALIDATION_VIEWS),
    )


def _textured_pairs(clips: tuple[Clip, ...]) -> list[Pair]:
    """Normal calls, in good and in poor light, of scenes with faint texture: detail that is to be kept."""
    pairs = []
    for number, (clip, view) in enumerate((clip, view) for clip in clips for view in TEXTURE_VIEWS):
        high = load_view(clip, view)
        if high is not None:
            scene = textured(high, number)
            pairs += [Pair(clip.id, light, *degrade(scene, light, clip.fps)) for light in TEXTURE_LIGHT]
    return pairs


def _to_json(found: HardSet, conditions: Sequence[Degradation]) -> Json:
    return {
        "conditions": [asdict(condition) for condition in conditions],
        "eps": found.eps,
        "coverage_before": found.coverage_before,
        "coverage_after": found.coverage_after,
        "before": found.before,
        "after": found.after,
        "members": found.members,
        "tried": found.tried,
        "stand_ins": [
            {
                "cluster": s.cluster,
                "clip": s.clip,
                "view": asdict(s.view),
                "degradation": asdict(s.degradation),
                "vectors": s.vectors.tolist(),
                "distance": s.distance,
                "reached": s.reached,
            }
            for s in found.stand_ins
        ],
    }
