"""Decode clips to arrays, resize by area and find scene cuts.

Frames are uint8 RGB arrays [n, h, w, 3]. Heights and widths returned by `read_frames` are multiples of four, so
that the half-size frame has even sides, which x264 (4:2:0) and SpaceToDepth(2) both need.
"""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from flows.data.errors import VideoError
from flows.limits import LIMITS

Frames = NDArray[np.uint8]


def decode(path: Path, start: int = 0, stop: int | None = None, stride: int = 1, scale: int = 1) -> Frames:
    """Frames start, start+stride, ... below `stop`, each shrunk by the whole number `scale` (area mean)."""
    end = LIMITS.max_clip_frames if stop is None else min(stop, start + LIMITS.max_clip_frames)
    picked: list[Frames] = []
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise VideoError(f"{path.name}: no video stream; give a file with a picture track")
            for index, frame in enumerate(container.decode(video=0)):
                if index >= end:
                    break
                if index >= start and (index - start) % stride == 0:
                    picked.append(shrink(to_rgb(frame), scale))
    except (av.FFmpegError, OSError) as error:
        if not picked:
            raise VideoError(f"{path.name}: cannot be decoded ({error}); remove or replace the file") from error
    if not picked:
        raise VideoError(f"{path.name}: no frame between {start} and {end}; check the clip's range")
    return np.stack([_align(frame) for frame in picked])


def to_rgb(frame: av.VideoFrame) -> Frames:
    """A decoded picture as RGB bytes [h, w, 3]."""
    return np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)


def shrink(image: Frames, factor: int) -> Frames:
    """Area mean over factor x factor boxes of one image [h, w, 3] or a clip [n, h, w, 3], rounded half up."""
    if factor == 1:
        return image
    lead, (height, width, depth) = image.shape[:-3], image.shape[-3:]
    rows, cols = height // factor, width // factor
    boxes = image[..., : rows * factor, : cols * factor, :].reshape(*lead, rows, factor, cols, factor, depth)
    total = boxes.astype(np.uint32).sum(axis=(-4, -2))
    return np.asarray((total * 2 + factor * factor) // (2 * factor * factor), dtype=np.uint8)


def scene_cuts(frames: Frames, jump: float = 30.0) -> list[int]:
    """Indices of frames that start a new scene: mean absolute difference to the last frame above `jump` LSB."""
    small = frames[:, ::4, ::4].astype(np.int16)
    steps = np.abs(np.diff(small, axis=0)).mean(axis=(1, 2, 3))
    return [int(index) + 1 for index in np.flatnonzero(steps > jump)]


def _align(frame: Frames) -> Frames:
    height, width = frame.shape[0] // 4 * 4, frame.shape[1] // 4 * 4
    if min(height, width) < LIMITS.min_frame_side:
        size = f"{frame.shape[1]}x{frame.shape[0]}"
        raise VideoError(f"a frame of {size} is too small; each side needs {LIMITS.min_frame_side} pixels or more")
    return np.ascontiguousarray(frame[:height, :width])
