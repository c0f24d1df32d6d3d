"""Pictures to attack with and pictures to attack: short runs of frames of 256 x 256, as a device would receive them.

The attacker trains on everything public: the training side of the corpus, and recordings of people who are not among
the held-out ones (in the very room of two of them, which helps the attacker). Held-out people are never trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.inverting.people import HELD_OUT, TRAINING, Recording
from benchmarks.inverting.photograph import FACE, PERSON
from flows.data.clips import Frames, decode
from flows.data.corpus import Corpus, Split, read
from flows.quality.snippets import vary_content

SIDE = 256
RUN = 4
"""Frames of a segment."""
_ABOVE = 100
"""Rows of a portrait above the middle of the face."""
_EVERY, _MOST = 12, 60
FACE_SIDE = 96
"""Pixels of the square around a face in which faces are judged."""
_PHOTOGRAPH_LEFTS = (64, 96, 128)


@dataclass(frozen=True)
class Shot:
    """A run of frames [4, 256, 256, 3] of one person in one recording; `face` is where its square begins (row, column),
    None where no face was marked.
    """

    person: str
    recording: str
    frames: Frames
    face: tuple[int, int] | None = None


def library(corpus: Corpus, people: Sequence[Recording]) -> list[Frames]:
    """Whole scenes the attacker may learn from, each [n, h, w, 3] with both sides at least 256."""
    scenes = [read(clip, limit=_MOST, scale=scale) for clip in corpus.of(Split.TRAIN) for scale in (1, 2)]
    scenes += [decode(one.path, 0, _MOST) for one in people if one.person in TRAINING]
    return [scene for scene in scenes if min(scene.shape[1:3]) >= SIDE and len(scene) >= RUN]


def draw(scenes: Sequence[Frames], random: np.random.Generator) -> Frames:
    """A random run out of a random scene: place, mirror, colours and contrast vary."""
    scene = scenes[random.integers(len(scenes))]
    start = random.integers(len(scene) - RUN + 1)
    top, left = random.integers(scene.shape[1] - SIDE + 1), random.integers(scene.shape[2] - SIDE + 1)
    run = scene[start : start + RUN, top : top + SIDE, left : left + SIDE]
    return vary_content(run, random) if random.random() < 0.5 else np.ascontiguousarray(run)


def portraits(corpus: Corpus, people: Sequence[Recording]) -> list[Shot]:
    """Head and shoulders of every held-out person, several runs a recording."""
    shots = [
        shot for one in people if one.person in HELD_OUT for shot in _shots(one, decode(one.path, 0, _MOST), _ABOVE)
    ]
    for clip in corpus.of(Split.HELD_OUT):
        if clip.video.startswith("carphone"):
            doubled = read(clip).repeat(2, axis=1).repeat(2, axis=2)
            shots += [Shot("carphone", clip.id, run) for run in _runs(doubled[:, 16 : 16 + SIDE, 48 : 48 + SIDE])]
    return shots


def photographs(picture: Frames) -> list[Shot]:
    """Three cuts of a sharp still photograph [512, 512, 3] of one person, held still, none of its pixels rescaled."""
    found = []
    for left in _PHOTOGRAPH_LEFTS:
        still = np.ascontiguousarray(np.stack([picture[:SIDE, left : left + SIDE]] * RUN))
        found.append(Shot(PERSON, "photograph", still, _square(FACE[1], FACE[0] - left)))
    return found


def close_ups(people: Sequence[Recording]) -> list[Shot]:
    """The face of every person, 128 x 128 enlarged to fill the frame: the worst case for telling people apart."""
    shots: list[Shot] = []
    for one in people:
        x, y = one.face
        top, left = max(0, y - SIDE // 4), x - SIDE // 4
        face = decode(one.path, 0, _MOST)[:, top : top + SIDE // 2, left : left + SIDE // 2]
        shots += [Shot(one.person, one.name, run) for run in _runs(face.repeat(2, axis=1).repeat(2, axis=2))]
    return shots


def _shots(one: Recording, frames: Frames, above: int) -> list[Shot]:
    x, y = one.face
    top, left = max(0, min(y - above, frames.shape[1] - SIDE)), x - SIDE // 2
    cut = frames[:, top : top + SIDE, left : left + SIDE]
    return [Shot(one.person, one.name, run, _square(y - top, x - left)) for run in _runs(cut)]


def _square(row: int, column: int) -> tuple[int, int]:
    """Where the square around a face begins, inside the picture."""
    most = SIDE - FACE_SIDE
    return min(max(row - FACE_SIDE // 2, 0), most), min(max(column - FACE_SIDE // 2, 0), most)


def _runs(frames: Frames) -> list[Frames]:
    starts = range(0, len(frames) - RUN + 1, _EVERY)
    return [np.ascontiguousarray(frames[start : start + RUN]) for start in starts]
