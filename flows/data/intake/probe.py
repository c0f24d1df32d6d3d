"""One look at one video file: size, rate, scenes, and everything about it that a user should know.

A file is read once from begin to end, frame by frame, so that memory does not grow with its length and a file that
breaks in the middle is found out here and not in the third hour of a training.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import av
import numpy as np

from flows.data.clips import to_rgb
from flows.data.errors import VideoError
from flows.limits import LIMITS

MIN_FRAMES = 5
_JUMP = 30.0
_TOO_BRIGHT = {16: "PQ", 18: "HLG"}
_VARIES = 1.25
_CHUNK = 1 << 20


class Verdict(StrEnum):
    """What becomes of a file."""

    NOTED = "used, with a note"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class Finding:
    """Something about one file: what was found and what can be done."""

    file: str
    verdict: Verdict
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}: {self.verdict}: {self.what}; {self.remedy}"


@dataclass(frozen=True)
class Probe:
    """Facts of a usable file. `cuts` are the frames at which scenes begin, after the first."""

    sha256: str
    frames: int
    width: int
    height: int
    fps: float
    cuts: tuple[int, ...]
    findings: tuple[Finding, ...]


def probe(path: Path, name: str) -> Probe:
    """Read a whole file. Raises VideoError, which names file and remedy, when nothing of it can be used."""
    findings: list[Finding] = []

    def note(what: str, remedy: str) -> None:
        findings.append(Finding(name, Verdict.NOTED, what, remedy))

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise VideoError(f"{name}: no picture track; remove the file or give one with pictures")
            stream = container.streams.video[0]
            _refuse_tones(name, stream.codec_context)
            rate = float(stream.average_rate or 25.0)
            seen = _watch(container, name, note)
            if min(stream.frames, LIMITS.max_clip_frames) > seen.count and not findings:
                what = f"it says that it has {stream.frames} frames and {seen.count} can be read"
                note(what, f"these {seen.count} are used; replace the file if it was cut off")
            _note_format(stream.codec_context, note)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise VideoError(f"{name}: cannot be opened ({_short(error)}); remove or replace the file") from error
    if seen.count < MIN_FRAMES:
        raise VideoError(f"{name}: {seen.count} readable frames, {MIN_FRAMES} are needed; give a longer video")
    if min(seen.size) < LIMITS.min_frame_side or max(seen.size) > LIMITS.max_frame_side:
        width, height = seen.size
        raise VideoError(
            f"{name}: {width}x{height} is outside {LIMITS.min_frame_side} to {LIMITS.max_frame_side} pixels a side; "
            "give another size"
        )
    width, height = seen.size
    if height > width:
        note(f"a vertical picture of {width}x{height}", "it is used as it is")
    if width % 4 or height % 4:
        note(f"{width}x{height} is not in fours", f"it is cropped to {width // 4 * 4}x{height // 4 * 4}")
    if seen.spread > _VARIES:
        note(
            f"its frame rate varies (longest gap {seen.spread:.1f} times the shortest)",
            f"frames are taken in order at their mean rate of {rate:.2f} a second; convert it if timing matters",
        )
    return Probe(
        file_sha256(path), seen.count, width // 4 * 4, height // 4 * 4, rate, tuple(seen.cuts), tuple(findings)
    )


@dataclass
class _Seen:
    count: int
    size: tuple[int, int]
    cuts: list[int]
    spread: float


def _watch(container: Any, name: str, note: Any) -> _Seen:  # Any: PyAV's container, and the caller's closure
    count, size, cuts, times = 0, (0, 0), [], []
    last = None
    try:
        for frame in container.decode(video=0):
            if count == LIMITS.max_clip_frames:
                note(f"longer than {count} frames", f"the first {count} are used; cut it into files to use the rest")
                break
            if size == (0, 0):
                size = (frame.width, frame.height)
            elif (frame.width, frame.height) != size:
                note(f"its picture size changes at frame {count}", f"the first {count} frames are used; cut it there")
                break
            small = to_rgb(frame)[::4, ::4].astype(np.int16)
            if last is not None and float(np.abs(small - last).mean()) > _JUMP:
                cuts.append(count)
            last = small
            if frame.time is not None:
                times.append(float(frame.time))
            count += 1
    except (av.FFmpegError, OSError, ValueError) as error:
        if count < MIN_FRAMES:
            raise VideoError(f"{name}: cannot be decoded ({_short(error)}); remove or replace the file") from error
        note(f"it breaks off after frame {count} ({_short(error)})", f"the first {count} are used; replace the file")
    gaps = np.diff(times)
    gaps = gaps[gaps > 0]
    return _Seen(count, size, cuts, float(gaps.max() / gaps.min()) if len(gaps) else 1.0)


def _refuse_tones(name: str, context: Any) -> None:  # Any: PyAV's codec context
    curve = _TOO_BRIGHT.get(int(getattr(context, "color_trc", 0) or 0))
    if curve:
        raise VideoError(
            f"{name}: HDR video ({curve}) would be read with wrong brightness; convert it to BT.709 (tone mapping)"
        )


def _note_format(context: Any, note: Any) -> None:  # Any: PyAV's codec context, and the caller's closure
    described = getattr(context, "format", None)
    depth = max((part.bits for part in described.components), default=8) if described is not None else 8
    if depth > 8:
        note(f"{depth}-bit samples", "they are rounded to the 8 bits that devices work with")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _short(error: Exception) -> str:
    return str(error).replace("\n", " ").split(": '", maxsplit=1)[0][:120]
