"""Where frames come from: a file, an RTSP stream, a camera, or a schedule of files over simulated time.

Every source gives u8 HxWx3 RGB frames with a key that names the picture (two reads of one frame of one file
have the same key). Frames are decoded one at a time; nothing is kept. A foreign, truncated or endless-
header file raises VideoError with what, where and the remedy.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
from av.sidedata.encparams import VideoEncParams, VideoEncParamsType
from numpy.typing import NDArray

from contracts.clock import day_of
from edge_agent.errors import ConfigError, VideoError
from edge_agent.limits import LIMITS

log = logging.getLogger(__name__)
Pixels = NDArray[np.uint8]
STREAMS = ("rtsp://", "rtsps://", "rtmp://", "udp://", "http://", "https://")


@dataclass(frozen=True)
class SourceFrame:
    """One picture and its name. `first`: it does not follow the one before, as at a start, a loop or another clip.
    `quantiser`: mean over its blocks on the scale of H.264, NaN where the decoder does not tell.

    On a conveyor: its trace id, the picture fitted to sizes (height, width), and work on it that another thread may do.
    """

    pixels: Pixels
    key: str
    first: bool = False
    quantiser: float = math.nan
    trace: int = 0
    fitted: tuple[tuple[tuple[int, int], ...], Pixels] | None = field(default=None, repr=False)
    later: list[Callable[[], None]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Decoded:
    """One picture as it left the decoder."""

    pixels: Pixels
    quantiser: float


class Source(Protocol):
    """Gives frames."""

    def next(self) -> SourceFrame | None:
        """Return the next frame, or None at the end. Raises VideoError."""

    def close(self) -> None:
        """Let go of the file or device."""


def decode(location: str, input_format: str | None = None, options: dict[str, str] | None = None) -> Iterator[Decoded]:
    """Yield the frames of a video as u8 RGB. Raises VideoError; frames before the damage are given first."""
    if input_format is None and not location.startswith(STREAMS) and not Path(location).is_file():
        raise VideoError(f"no video at {location}; give a file that exists, an rtsp:// address or a camera")
    try:
        container = av.open(location, format=input_format, options=options or {}, timeout=LIMITS.video_header_s)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise VideoError(
            f"{location} is not a video that this device can read ({error}); use mp4, mkv, webm or y4m"
        ) from error
    with container:
        yield from _frames(container, location)


def _frames(container: av.container.InputContainer, location: str) -> Iterator[Decoded]:
    if not container.streams.video:
        raise VideoError(f"{location} holds no video stream; give a file with pictures")
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1
    stream.codec_context.options = {"export_side_data": "venc_params"}
    if max(stream.codec_context.width, stream.codec_context.height) > LIMITS.video_side:
        size = f"{stream.codec_context.width}x{stream.codec_context.height}"
        raise VideoError(f"{location} is {size}; at most {LIMITS.video_side} pixels a side are read: scale it down")
    count = 0
    try:
        for frame in container.decode(stream):
            count += 1
            pixels = np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)
            yield Decoded(pixels, quantiser_of(frame))
    except (av.FFmpegError, ValueError) as error:
        raise VideoError(
            f"{location} breaks off after frame {count} ({error}); the file is truncated or damaged"
        ) from error
    if count == 0:
        raise VideoError(f"{location} holds no picture; the file is empty, truncated or damaged")
    if stream.frames and count < stream.frames * 9 // 10 and not location.startswith(STREAMS):
        raise VideoError(f"{location} breaks off after frame {count} of {stream.frames}; the file is truncated")


def quantiser_of(frame: av.VideoFrame) -> float:
    """Mean quantiser of a picture (0..51) over evenly spaced blocks; NaN where its decoder does not tell."""
    beside: Any = frame.side_data  # Any: PyAV's stub names one kind of side data only
    for told in (beside[index] for index in range(len(beside))):
        if isinstance(told, VideoEncParams) and told.codec_type == VideoEncParamsType.H264 and told.nb_blocks:
            picked = range(0, told.nb_blocks, max(1, told.nb_blocks // LIMITS.quantiser_blocks))
            return told.qp + sum(told.block_params(index).delta_qp for index in picked) / len(picked)
    return math.nan


class VideoSource:
    """A file, stream or camera. A file is looped when asked; a damaged file ends the source after a
    warning.
    """

    def __init__(self, location: str, loop: bool = False, input_format: str | None = None) -> None:
        self._location, self._loop, self._format = location, loop, input_format
        self._frames: Iterator[Decoded] = iter(())
        self._index = 0
        self._open()

    @classmethod
    def camera(cls, device: str) -> VideoSource:
        """Open a V4L2 camera such as /dev/video0."""
        if not Path(device).exists():
            raise VideoError(f"no camera at {device}; list cameras with `ls /dev/video*`")
        return cls(device, input_format="v4l2")

    def next(self) -> SourceFrame | None:
        found = next(self._frames, None)
        if found is None and self._loop and self._index:
            self._open()
            found = next(self._frames, None)
        if found is None:
            return None
        self._index += 1
        key = f"{self._location}#{self._index - 1}"
        return SourceFrame(found.pixels, key, first=self._index == 1, quantiser=found.quantiser)

    def close(self) -> None:
        if hasattr(self._frames, "close"):
            self._frames.close()

    def _open(self) -> None:
        self.close()
        self._frames, self._index = decode(self._location, self._format), 0


@dataclass(frozen=True)
class ScheduleEntry:
    """From simulated instant `start` on, watch `paths` in turn."""

    start: float
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Schedule:
    """Which videos surround the device at which simulated time."""

    entries: tuple[ScheduleEntry, ...]

    def at(self, instant: float) -> ScheduleEntry:
        """Return the entry in force; before the first start, the first."""
        past = [entry for entry in self.entries if entry.start <= instant]
        return past[-1] if past else self.entries[0]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for entry in self.entries for path in entry.paths))


def load_schedule(path: Path, first_day: int) -> Schedule:
    """Read a schedule file; see `parse_schedule`. Paths are relative to its folder. Raises ConfigError."""
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"schedule {path} cannot be read ({error}); give a JSON object") from error
    return parse_schedule(raw, path.parent, first_day, str(path))


def parse_schedule(raw: Any, folder: Path, first_day: int, where: str) -> Schedule:
    """Read {"entries": [{"from_day": n | "from": unix seconds, "paths": [...]}]}, decoded from JSON.

    Days count from `first_day`.

    Raises ConfigError.
    """
    try:
        entries = [_entry(item, folder, first_day) for item in raw["entries"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        form = '{"entries": [{"from_day": 0, "paths": ["clip.mp4"]}]}'
        raise ConfigError(f"schedule {where} has another form than {form} ({error!r})") from error
    if not entries or not all(entry.paths for entry in entries):
        raise ConfigError(f"schedule {where} needs at least one entry, each with at least one path")
    return Schedule(tuple(sorted(entries, key=lambda entry: entry.start)))


def _entry(item: dict[str, object], folder: Path, first_day: int) -> ScheduleEntry:
    start = float(str(item["from"])) if "from" in item else (first_day + float(str(item["from_day"]))) * 86_400
    paths = item["paths"]
    if not isinstance(paths, list):
        raise TypeError("paths must be a list")
    return ScheduleEntry(start, tuple(str(folder / str(p)) for p in paths))


class ScheduleSource:
    """Plays the schedule's videos in a loop and changes over when simulated time passes an entry's start."""

    def __init__(self, schedule: Schedule, now: Callable[[], float]) -> None:
        self._schedule, self._now = schedule, now
        self._entry: ScheduleEntry | None = None
        self._video: VideoSource | None = None
        self._turn = 0

    def next(self) -> SourceFrame | None:
        entry = self._schedule.at(self._now())
        if entry is not self._entry:
            self._entry, self._turn = entry, 0
            self._change()
        for _ in range(len(entry.paths) + 1):
            frame = self._try(entry)
            if frame is not None:
                return frame
            self._turn += 1
            self._change()
        raise VideoError(f"no readable video among {', '.join(entry.paths)}")

    def close(self) -> None:
        if self._video is not None:
            self._video.close()

    def _try(self, entry: ScheduleEntry) -> SourceFrame | None:
        try:
            if self._video is None:
                self._video = VideoSource(entry.paths[self._turn % len(entry.paths)])
            return self._video.next()
        except VideoError as error:
            log.warning("%s", error)
            return None

    def _change(self) -> None:
        self.close()
        self._video = None


def open_source(location: str, now: Callable[[], float], loop: bool = False) -> Source:
    """Open what `location` names: a schedule (.json), a camera (/dev/video*), a stream or a file."""
    if location.endswith(".json"):
        return ScheduleSource(load_schedule(Path(location), day_of(now())), now)
    if location.startswith("/dev/video"):
        return VideoSource.camera(location)
    return VideoSource(location, loop=loop and not location.startswith(STREAMS))
