"""x264 and x265 at a fixed quantiser, a constant quality or a bit rate; low delay, one thread, a key frame a second.

`flows.data.codec` is the coder of the conditions that models were made with; it stays as it is, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext

from flows.data.clips import Frames
from flows.data.codec import Packet
from flows.data.errors import VideoError

KEY_INTERVAL = 25
DECODERS = {"x264": "h264", "x265": "hevc"}
_ENCODERS = {"x264": "libx264", "x265": "libx265"}
_X265_SIDE = 32


@dataclass(frozen=True)
class Coder:
    """A codec and one of three ways to say how coarse it is."""

    codec: str = "x264"
    qp: int | None = None
    crf: float | None = None
    bitrate_kbps: float | None = None


def encode_with(frames: Frames, coder: Coder, fps: float = 25.0, slice_bytes: int | None = None) -> list[Packet]:
    """Packets of a clip [n, h, w, 3] in coding order; no picture refers to a later one."""
    _, height, width, _ = frames.shape
    if height % 2 or width % 2:
        raise VideoError(f"{coder.codec} needs even sides, got {width}x{height}; crop the frame")
    if coder.codec == "x265" and min(height, width) < _X265_SIDE:
        raise VideoError(f"x265 needs sides of {_X265_SIDE} or more, got {width}x{height}; use x264 or a larger frame")
    rate = Fraction(fps).limit_denominator(1001)
    context = av.CodecContext.create(_ENCODERS[coder.codec], "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.framerate, context.time_base = rate, 1 / rate
    context.thread_count = 1
    context.options = _options(coder, slice_bytes)
    packets: list[Packet] = []
    for index, image in enumerate(frames):
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        picture.pts, picture.time_base = index, context.time_base
        packets.extend(context.encode(picture))
    packets.extend(context.encode(None))
    return packets


def _options(coder: Coder, slice_bytes: int | None) -> dict[str, str]:
    rate = _rate(coder)
    common = {"preset": "veryfast", "tune": "zerolatency"}
    if coder.codec == "x265":
        fixed = {"keyint": f"{KEY_INTERVAL}", "pools": "none", "frame-threads": "1", "log-level": "none"}
        return common | {"x265-params": ":".join(f"{name}={value}" for name, value in (fixed | rate).items())}
    fixed = {"keyint": f"{KEY_INTERVAL}", "threads": "1", "sliced-threads": "0"}
    if slice_bytes is not None:
        fixed |= {"slice-max-size": f"{slice_bytes}"}
    return common | {"x264-params": ":".join(f"{name}={value}" for name, value in (fixed | rate).items())}


def _rate(coder: Coder) -> dict[str, str]:
    if coder.qp is not None:
        return {"qp": f"{coder.qp}"}
    if coder.bitrate_kbps is not None:
        whole = f"{max(1, round(coder.bitrate_kbps))}"
        return {"bitrate": whole, "vbv-maxrate": whole, "vbv-bufsize": whole}
    return {"crf": f"{20.0 if coder.crf is None else coder.crf:g}"}
