"""Losses of parts of a picture: slices that fit a network packet, some of which never arrive.

The decoder is a real one (FFmpeg's); it fills a missing slice from the pictures and blocks around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from flows.data.clips import Frames, to_rgb
from flows.data.codec import Packet
from flows.data.coders import Coder, encode_with
from flows.data.errors import VideoError

_START = re.compile(rb"\x00\x00\x00?\x01")
_SLICE_KINDS = frozenset({1, 5})


def transmit_slices(
    frames: Frames, coder: Coder, fps: float, slice_bytes: int, lose: Callable[[int], NDArray[np.bool_]]
) -> Frames:
    """What a receiver shows of a clip [n, h, w, 3] when `lose(count)` says which slices of all are lost.

    The first picture and the stream's parameter sets always arrive.
    """
    pictures = [_units(bytes(packet)) for packet in encode_with(frames, coder, fps, slice_bytes)]
    slices = [(at, index) for at, units in enumerate(pictures) for index, unit in enumerate(units) if _is_slice(unit)]
    lost = {place for place, gone in zip(slices, lose(len(slices)), strict=True) if gone and place[0] > 0}
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.thread_count = 1
    shown: dict[int, Frames] = {}
    for at, units in enumerate(pictures):
        kept = [unit for index, unit in enumerate(units) if (at, index) not in lost]
        if any(_is_slice(unit) for unit in kept):
            packet: Packet = av.Packet(b"".join(b"\x00\x00\x00\x01" + unit for unit in kept))
            packet.pts = packet.dts = at
            _decode(decoder, packet, shown)
    _decode(decoder, None, shown)
    if not shown:
        raise VideoError("nothing decodable is left of the stream; lower the loss")
    output, last = np.empty_like(frames), shown[min(shown)]
    for index in range(len(frames)):
        last = shown.get(index, last)
        output[index] = last
    return output


def _decode(decoder: VideoCodecContext, packet: Packet | None, shown: dict[int, Frames]) -> None:
    try:
        pictures = list(decoder.decode(packet))
    except av.FFmpegError:
        return
    shown.update({int(picture.pts): to_rgb(picture) for picture in pictures if picture.pts is not None})


def _units(stream: bytes) -> list[bytes]:
    return [unit for unit in _START.split(stream) if unit]


def _is_slice(unit: bytes) -> bool:
    return unit[0] & 31 in _SLICE_KINDS
