"""What the bench trains on and judges by: twelve recordings of three people, a fourth person held out, other scenes.

Recordings lie beside the checkout, in `../shared/data/video`, or where EDGELOOP_PEOPLE says (`intel-asl`,
`intel-scenes`; CC BY 4.0, Intel IoT DevKit sample-videos); bigbuckbunny, bikes and carphone come with the default
corpus. Held out: the person in the hoodie (all recordings), carphone, the late scenes of bikes. The split is by person
and scene, never by frame. The low-resolution side is PIL's bicubic, without a codec.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.inverting.people import BESIDE, VARIABLE, Recording, recordings
from benchmarks.teaching.bicubic import halved
from flows.data.clips import Frames, decode
from flows.data.corpus import Clip, Split, default_corpus, read
from flows.data.degrade import Degradation
from flows.data.errors import CorpusError
from flows.data.pairs import Pair, PairSet

HELD_OUT_PERSON = "hoodie"
SCENES = ("bottle-detection", "one-by-one-person-detection")
CLEAN = Degradation(crf=0.0)
"""How clean pairs are labelled; no codec touches them."""

_PERSON_STRIDE, _JUDGED_STRIDE = 4, 10
_SCENE_STRIDE, _SCENE_FRAMES = 50, 20
_CROP, _CROPPED_FRAMES = 96, 2
_BUNNY_STRIDE, _BIKES_STRIDE, _CARPHONE_STRIDE = 9, 8, 4


@dataclass(frozen=True)
class Scene:
    """High-resolution frames [n, h, w, 3] of one recording, and their rate."""

    name: str
    high: Frames
    fps: float


@lru_cache(maxsize=1)
def training_scenes() -> tuple[Scene, ...]:
    """Twelve recordings of people, two fixed-camera scenes, bigbuckbunny and the early scenes of bikes."""
    people = [one for one in _recordings() if one.person != HELD_OUT_PERSON]
    found = [Scene(one.name, decode(one.path, stride=_PERSON_STRIDE), 30.0 / _PERSON_STRIDE) for one in people]
    for name in SCENES:
        path = _folder() / "intel-scenes" / f"{name}.mp4"
        if not path.is_file():
            raise CorpusError(f"{path} is missing; {_REMEDY}")
        found.append(Scene(name, decode(path, 0, _SCENE_STRIDE * _SCENE_FRAMES, _SCENE_STRIDE), 1.0))
    others = default_corpus().of(Split.TRAIN)
    strides = {"bigbuckbunny": _BUNNY_STRIDE}
    return (*found, *(_scene(clip, strides.get(clip.video, _BIKES_STRIDE)) for clip in others))


@lru_cache(maxsize=1)
def judged_scenes() -> dict[str, tuple[Scene, ...]]:
    """Held-out scenes: `person`, `carphone`, `bikes`."""
    people = [one for one in _recordings() if one.person == HELD_OUT_PERSON]
    held = [clip for clip in default_corpus().of(Split.HELD_OUT) if clip.frames >= 2 * _BIKES_STRIDE]
    return {
        "person": tuple(
            Scene(one.name, decode(one.path, stride=_JUDGED_STRIDE), 30.0 / _JUDGED_STRIDE) for one in people
        ),
        "carphone": tuple(_scene(clip, _CARPHONE_STRIDE) for clip in held if clip.video != "bikes"),
        "bikes": tuple(_scene(clip, _BIKES_STRIDE) for clip in held if clip.video == "bikes"),
    }


def clean_pairs(scenes: tuple[Scene, ...]) -> PairSet:
    """Bicubic pairs of scenes."""
    return PairSet(tuple(Pair(scene.name, CLEAN, halved(scene.high), scene.high) for scene in scenes))


@lru_cache(maxsize=1)
def training_set() -> PairSet:
    """Clean pairs of the training scenes."""
    return clean_pairs(training_scenes())


@lru_cache(maxsize=1)
def judge_sets() -> dict[str, PairSet]:
    """Clean pairs of the held-out scenes by name."""
    return {name: clean_pairs(scenes) for name, scenes in judged_scenes().items()}


def cropped(pairs: PairSet) -> PairSet:
    """The middle of the last frames of each pair: enough to tell two networks apart."""
    return PairSet(tuple(_middle(pair) for pair in pairs.pairs))


def _middle(pair: Pair) -> Pair:
    top, left = ((side - _CROP) // 2 for side in pair.low.shape[1:3])
    low = pair.low[-_CROPPED_FRAMES:, top : top + _CROP, left : left + _CROP]
    high = pair.high[-_CROPPED_FRAMES:, 2 * top : 2 * (top + _CROP), 2 * left : 2 * (left + _CROP)]
    return Pair(pair.clip, pair.degradation, low, high)


_REMEDY = f"put intel-asl and intel-scenes of the Intel IoT DevKit sample-videos there, or set {VARIABLE}"


def _folder() -> Path:
    return Path(os.environ.get(VARIABLE, BESIDE))


def _recordings() -> list[Recording]:
    found = recordings()
    if not {HELD_OUT_PERSON, "orange", "grey", "black"} <= {one.person for one in found}:
        raise CorpusError(f"{_folder() / 'intel-asl'} lacks recordings of people; {_REMEDY}")
    return found


def _scene(clip: Clip, stride: int) -> Scene:
    return Scene(clip.id, read(clip, stride=stride), clip.fps / stride)
