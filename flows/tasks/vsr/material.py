"""The usual training and judging pairs of a corpus: several sizes of each scene, normal and hard conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flows.data.corpus import Clip, Corpus, Split
from flows.data.degrade import HARD_VARIETY, NORMAL, NORMAL_VARIETY, Degradation
from flows.data.pairs import PairSet, View, make_pairs

NORMAL_VIEWS = (View(1, 6, 20), View(2, 4, 32), View(3, 4, 32), View(4, 4, 32))
HARD_VIEWS = (View(1, 8, 12, (480, 640)), View(2, 4, 24), View(3, 4, 30), View(4, 4, 30))
JUDGE_SEED = 100


def normal_pairs(corpus: Corpus) -> PairSet:
    """Training scenes at healthy quality."""
    return make_pairs(corpus.of(Split.TRAIN), NORMAL_VARIETY[::2], NORMAL_VIEWS)


def hard_pairs(corpus: Corpus, conditions: Sequence[Degradation] = HARD_VARIETY) -> PairSet:
    """Training scenes under hard conditions, each a little milder and a little stronger than given."""
    around = [
        replace(condition, noise=condition.noise * factor, crf=condition.crf + step, seed=10 * index + place)
        for index, condition in enumerate(conditions)
        for place, (factor, step) in enumerate(((0.85, -1.0), (1.15, 1.0)))
    ]
    return make_pairs(corpus.of(Split.TRAIN), around, HARD_VIEWS)


def judge_sets(corpus: Corpus, frames: int = 120) -> dict[str, PairSet]:
    """Held-out scenes: one set per condition and video, named like `carphone_pristine normal`."""
    hard = {f"hard{i}": (d.with_seed(JUDGE_SEED + i),) for i, d in enumerate(HARD_VARIETY)}
    conditions = {"normal": (NORMAL,), **hard}
    videos: dict[str, list[Clip]] = {}
    for clip in corpus.of(Split.HELD_OUT):
        if clip.frames >= 16:
            videos.setdefault(clip.video, []).append(clip)
    return {
        f"{video} {name}": make_pairs(clips, degradations, (View(1, 1, frames),))
        for video, clips in videos.items()
        for name, degradations in conditions.items()
    }
