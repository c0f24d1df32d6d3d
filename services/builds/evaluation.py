"""Evaluation sets: an npz of held-out frames with ground truth, checked before a byte of it is unpacked.

Members: `lr` u8 [n, h, w, 3], `hr` u8 [n, 2h, 2w, 3], `clip` integers [n] (frames of one clip lie together, in
order), `name` text, `condition` text (`normal` or `hard`; defaults to `name`). Sizes are read from the archive's
directory and from each array's header first, so a small file cannot unpack into a large one.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.builds.limits import UPLOADS, UploadLimits

CONDITIONS = ("normal", "hard")
NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$")
ARRAYS = ("lr", "hr", "clip")
HEADER_BYTES = 4_096


class MalformedSet(ValueError):
    """The file is not an evaluation set; the message says what, where and the remedy."""


@dataclass(frozen=True)
class Frames:
    """A set in memory. `lr` and `hr` are u8 pictures, `clip` numbers the clip of each frame."""

    name: str
    condition: str
    lr: NDArray[np.uint8]
    hr: NDArray[np.uint8]
    clip: NDArray[np.integer]

    @property
    def profile(self) -> str:
        """Name of the profile that takes these frames."""
        return f"{self.lr.shape[1]}x{self.lr.shape[2]}"


def parse(data: bytes, limits: UploadLimits = UPLOADS) -> Frames:
    """Read and check a set; raises MalformedSet."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _members(archive, limits)
            name = _text(archive, members, "name")
            condition = _text(archive, members, "condition") if "condition" in members else name
            arrays = {part: _array(archive, members[part]) for part in ARRAYS}
    except MalformedSet:
        raise
    except Exception as error:  # zipfile, zlib and struct each raise their own kinds on damaged archives
        raise MalformedSet(f"not a readable npz ({error}); write it with numpy.savez and upload it again") from error
    return _checked(Frames(name, condition, arrays["lr"], arrays["hr"], arrays["clip"]), limits)


def _members(archive: zipfile.ZipFile, limits: UploadLimits) -> dict[str, zipfile.ZipInfo]:
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    missing = [part for part in ("name", *ARRAYS) if part not in members]
    if missing:
        raise MalformedSet(f"the npz lacks {', '.join(missing)}; it needs name, lr, hr and clip")
    unpacked = sum(info.file_size for info in archive.infolist())
    if unpacked > limits.evaluation_bytes:
        raise MalformedSet(
            f"the npz unpacks to {unpacked:,} bytes, allowed are {limits.evaluation_bytes:,}; send fewer"
        )
    return members


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[np.uint8]:
    with archive.open(info) as stream:
        data = io.BytesIO(stream.read(info.file_size))
    try:
        _check_header(data, info)
        loaded: NDArray[np.uint8] = np.lib.format.read_array(data, allow_pickle=False, max_header_size=HEADER_BYTES)
    except (ValueError, TypeError, SyntaxError) as error:
        raise MalformedSet(f"member {info.filename} is not a plain array ({error}); save numbers only") from error
    return loaded


def _check_header(data: io.BytesIO, info: zipfile.ZipInfo) -> None:
    """The array that the header promises is no larger than the member itself."""
    version = np.lib.format.read_magic(data)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(data, max_header_size=HEADER_BYTES)
    if math.prod(shape) * kind.itemsize > info.file_size:
        raise MalformedSet(f"member {info.filename} promises {shape} of {kind}, more than it holds; save it again")
    data.seek(0)


def _text(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], part: str) -> str:
    value = _array(archive, members[part]) if members[part].file_size <= HEADER_BYTES else np.zeros(0, np.uint8)
    if value.size != 1 or value.dtype.kind != "U":
        raise MalformedSet(f"member {part} is not one short text; save it as numpy.array('normal')")
    return str(value.reshape(-1)[0])


def _checked(frames: Frames, limits: UploadLimits) -> Frames:
    for problem in _problems(frames, limits):
        raise MalformedSet(problem)
    return frames


def _problems(frames: Frames, limits: UploadLimits) -> list[str]:
    lr, hr, clip = frames.lr, frames.hr, frames.clip
    if not NAME.match(frames.name):
        return [f"name {frames.name!r} is not a plain word of at most 64 characters"]
    if frames.condition not in CONDITIONS:
        return [f"condition {frames.condition!r} is unknown; it is one of {', '.join(CONDITIONS)}"]
    if lr.dtype != np.uint8 or hr.dtype != np.uint8 or lr.ndim != 4 or hr.ndim != 4 or lr.shape[3] != 3:
        return [f"lr and hr must be u8 [n, h, w, 3]; they are {lr.dtype} {lr.shape} and {hr.dtype} {hr.shape}"]
    count, height, width, _ = lr.shape
    if (
        not 1 <= count <= limits.evaluation_frames
        or not 16 <= min(height, width) <= max(height, width) <= limits.evaluation_side
    ):
        most, side = limits.evaluation_frames, limits.evaluation_side
        return [f"lr is {lr.shape}; allowed are 1 to {most} frames, sides 16 to {side}"]
    if hr.shape != (count, 2 * height, 2 * width, 3):
        return [f"hr is {hr.shape}; for lr {lr.shape} it must be {(count, 2 * height, 2 * width, 3)}"]
    if clip.shape != (count,) or not np.issubdtype(clip.dtype, np.integer):
        return [f"clip is {clip.dtype} {clip.shape}; it must be {count} integers, one a frame"]
    return []
