"""Where composed frames go: mp4 through x264, in pieces that are finished atomically.

A piece is written under a temporary name and renamed when it is closed, so a player never meets half a file.
`keep` bounds the number of finished pieces: an agent that runs for hours keeps the newest only. A full disk
ends the recording with one warning; it never ends the call.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Protocol, runtime_checkable

import av
import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
Finished = av.VideoFrame
log = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes composed frames."""

    def write(self, frame: Frame) -> None:
        """Take one u8 HxWx3 RGB frame."""

    def close(self) -> None:
        """Finish what was begun."""


@runtime_checkable
class FinishingSink(Protocol):
    """What a sink adds when part of its work on a frame may be done ahead, on another thread."""

    def finish(self, frame: Frame) -> Finished:
        """Return the frame as the sink wants it."""

    def write_finished(self, finished: Finished) -> None:
        """Take what `finish` made; the same as `write` of the frame."""


class NullSink:
    """Shows nothing: a light agent."""

    def write(self, frame: Frame) -> None:
        return None

    def close(self) -> None:
        return None


class Mp4Sink:
    """Writes `path`, or `path` with a running number when `piece_frames` is set."""

    def __init__(
        self,
        path: Path,
        rate: int = 25,
        crf: int = 18,
        preset: str = "veryfast",
        piece_frames: int = 0,
        keep: int = 2,
    ) -> None:
        self._path, self._rate, self._keep = path, rate, keep
        self._options = {"crf": str(crf), "preset": preset}
        self._piece_frames = piece_frames
        self._number, self._written = 0, 0
        self._container: av.container.OutputContainer | None = None
        self._stream: av.VideoStream | None = None
        self._finished: list[Path] = []
        self.failed = ""

    @property
    def frames(self) -> int:
        """Frames in the piece being written."""
        return self._written

    def write(self, frame: Frame) -> None:
        if not self.failed:
            self.write_finished(self.finish(frame))

    def finish(self, frame: Frame) -> Finished:
        """Return the frame in the encoder's colours."""
        return av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24").reformat(format="yuv420p")

    def write_finished(self, finished: Finished) -> None:
        if self.failed:
            return
        try:
            self._write(finished)
        except (OSError, av.FFmpegError) as error:
            self._give_up(error)

    def close(self) -> None:
        if self._container is None:
            return
        try:
            self._finish()
        except (OSError, av.FFmpegError) as error:
            self._give_up(error)

    def _write(self, picture: Finished) -> None:
        height, width = picture.height, picture.width
        if self._stream is not None and (self._stream.height, self._stream.width) != (height, width):
            self._finish()
        if self._piece_frames and self._written >= self._piece_frames:
            self._finish()
        if self._container is None or self._stream is None:
            self._begin(width, height)
        assert self._container is not None
        assert self._stream is not None
        picture.pts = self._written
        self._container.mux(self._stream.encode(picture))
        self._written += 1

    def _begin(self, width: int, height: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(self._temporary), "w", format="mp4")
        stream = self._container.add_stream("libx264", rate=Fraction(self._rate), options=self._options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        self._stream, self._written = stream, 0

    def _finish(self) -> None:
        assert self._container is not None
        assert self._stream is not None
        container, self._container = self._container, None
        try:
            container.mux(self._stream.encode(None))
        finally:
            self._stream = None
            container.close()
        final = self._final_name()
        with open(self._temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(self._temporary, final)
        self._number += 1
        self._written = 0
        self._forget_old(final)

    def _forget_old(self, final: Path) -> None:
        if final in self._finished:
            return
        self._finished.append(final)
        while len(self._finished) > self._keep:
            self._finished.pop(0).unlink(missing_ok=True)

    def _give_up(self, error: Exception) -> None:
        self.failed = str(error)
        container, self._container, self._stream = self._container, None, None
        log.warning("recording to %s stopped: %s; free some space and restart to record", self._path, error)
        with suppress(OSError, av.FFmpegError):
            if container is not None:
                container.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    @property
    def _temporary(self) -> Path:
        return self._path.with_name(f".{self._path.name}.part")

    def _final_name(self) -> Path:
        if self._number == 0 and not self._piece_frames:
            return self._path
        return self._path.with_name(f"{self._path.stem}-{self._number:05d}{self._path.suffix}")
