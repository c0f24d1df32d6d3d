"""What the devices' cameras and networks deliver, made from held-out clips with a real codec.

Every clip is sent through x264 as a call would be and decoded again; the received frames are stored losslessly, so
that a device reads exactly what a receiver would see and no second codec adds to it. The ground truth of each
condition stays here, for judging only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from flows.data.clips import Frames
from flows.data.corpus import Clip, Corpus, Split
from flows.data.degrade import Degradation, degrade, draw_hard, draw_normal
from flows.data.pairs import View, load_view

NORMAL, HARD = "normal", "hard"


@dataclass(frozen=True)
class Recording:
    """One received clip on disk with the condition it went through."""

    path: Path
    clip: str
    condition: str
    degradation: Degradation
    low: Frames
    high: Frames


@dataclass(frozen=True)
class Scene:
    """All recordings."""

    recordings: tuple[Recording, ...]

    def paths(self, condition: str, clip: str | None = None) -> list[Path]:
        """Files of a condition."""
        return [r.path for r in self.recordings if r.condition == condition and clip in (None, r.clip)]

    def of(self, condition: str) -> list[Recording]:
        """Recordings of a condition."""
        return [r for r in self.recordings if r.condition == condition]


def degradations(condition: str, variants: int, seed: int) -> list[Degradation]:
    """Draws of a condition: a healthy call, or low light over a bad network."""
    random = np.random.default_rng([seed, condition == HARD])
    draw = draw_hard if condition == HARD else draw_normal
    return [draw(random, index) for index in range(variants)]


def make_scene(
    folder: Path,
    corpus: Corpus,
    *,
    variants: int,
    frames: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> Scene:
    """Record every held-out clip under every variant of both conditions."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = [(clip, _view(clip, frames)) for clip in corpus.of(Split.HELD_OUT) if clip.frames >= 16]
    todo = [
        (c, v, condition, d)
        for c, v in clips
        for condition in (NORMAL, HARD)
        for d in degradations(condition, variants, seed)
    ]
    recordings: list[Recording] = []
    for index, (clip, view, condition, degradation) in enumerate(todo):
        high = load_view(clip, view)
        if high is not None:
            low, target = degrade(high, degradation, clip.fps)
            path = folder / f"{clip.id.replace('/', '-')}-{condition}-{degradation.seed}.mp4"
            write_lossless(path, low, clip.fps)
            recordings.append(Recording(path, clip.id, condition, degradation, low, target))
        if progress is not None:
            progress((index + 1) / len(todo))
    return Scene(tuple(recordings))


def write_schedule(path: Path, before: list[Path], after: list[Path] | None, change_at: float) -> None:
    """A device's surroundings: `before` from the beginning and `after` from the simulated instant `change_at`."""
    entries: list[dict[str, object]] = [{"from": 0, "paths": [str(p) for p in before]}]
    if after is not None:
        entries.append({"from": change_at, "paths": [str(p) for p in after]})
    path.write_text(json.dumps({"entries": entries}, indent=1))


def write_lossless(path: Path, frames: Frames, fps: float) -> None:
    """Write RGB frames [n, h, w, 3] so that decoding gives the same bytes back."""
    temporary = path.with_suffix(".part.mp4")
    with av.open(str(temporary), "w") as container:
        stream = container.add_stream("libx264rgb", rate=round(fps))
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "rgb24"
        stream.options = {"crf": "0", "preset": "ultrafast"}
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())
    temporary.replace(path)


def _view(clip: Clip, frames: int) -> View:
    scale = 1
    while clip.height // scale > 400:
        scale += 1
    return View(scale=scale, limit=frames)
