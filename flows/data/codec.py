"""A real video codec (x264 through PyAV) with lost packets, and a lossless writer for what a receiver decoded.

`transcode` returns as many frames as it was given. A packet that is lost never reaches the decoder; the picture it
carried is concealed by repeating the last one, and pictures that referred to it decode from the wrong reference,
as in a real call, until the next key frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import av
import numpy as np
from av.sidedata.encparams import VideoEncParams
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from flows.data.clips import Frames, to_rgb
from flows.data.errors import VideoError

_KEY_INTERVAL = 25

Packet: TypeAlias = "av.Packet[Any]"  # Any: the stream kind, which a bare codec context does not have


@dataclass(frozen=True)
class Received:
    """Pictures [n, h, w, 3] as shown, and the mean quantiser of the blocks of each (0..51), [n]."""

    frames: Frames
    quantisers: NDArray[np.float64]


def transcode(
    frames: Frames,
    *,
    crf: float | None = 20.0,
    bitrate_kbps: float | None = None,
    fps: float = 25.0,
    loss: float = 0.0,
    seed: int = 0,
) -> Frames:
    """Encode at a constant quality (`crf`) or a bit rate, lose a share of the packets, decode. Deterministic."""
    return transmit(frames, crf=crf, bitrate_kbps=bitrate_kbps, fps=fps, loss=loss, seed=seed).frames


def transmit(
    frames: Frames,
    *,
    crf: float | None = 20.0,
    bitrate_kbps: float | None = None,
    fps: float = 25.0,
    loss: float = 0.0,
    seed: int = 0,
) -> Received:
    """Like `transcode`, with what the decoder says of each picture."""
    packets = encode(frames, crf=crf, bitrate_kbps=bitrate_kbps, fps=fps)
    lost = np.random.default_rng(seed).random(len(packets)) < loss
    lost[0] = False
    return decode_with_losses(packets, lost, len(frames), frames.shape[1:3])


def encode(
    frames: Frames, *, crf: float | None = 20.0, bitrate_kbps: float | None = None, fps: float = 25.0
) -> list[Packet]:
    """x264 packets in coding order: low delay (no B pictures), a key frame each second, single thread."""
    _, height, width, _ = frames.shape
    if height % 2 or width % 2:
        raise VideoError(f"x264 needs even sides, got {width}x{height}; crop the frame")
    rate = Fraction(fps).limit_denominator(1001)
    context = av.CodecContext.create("libx264", "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.framerate, context.time_base = rate, 1 / rate
    context.thread_count = 1
    context.options = _options(crf, bitrate_kbps)
    packets: list[Packet] = []
    for index, image in enumerate(frames):
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        picture.pts, picture.time_base = index, context.time_base
        packets.extend(context.encode(picture))
    packets.extend(context.encode(None))
    return packets


def write_lossless(path: Path, frames: Frames, fps: float = 25.0) -> None:
    """Store frames bit for bit (x264 in RGB, quantiser 0), so that a device sees exactly what a receiver decoded."""
    rate = Fraction(fps).limit_denominator(1001)
    temporary = path.with_suffix(".part.mp4")
    with av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264rgb", rate=rate)
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "rgb24"
        stream.options = {"qp": "0", "preset": "veryfast", "threads": "1"}
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")))
        container.mux(stream.encode(None))
    temporary.replace(path)


def _options(crf: float | None, bitrate_kbps: float | None) -> dict[str, str]:
    options = {"preset": "veryfast", "tune": "zerolatency", "g": str(_KEY_INTERVAL), "threads": "1"}
    if bitrate_kbps is not None:
        return options | {
            "b": f"{int(bitrate_kbps * 1000)}",
            "maxrate": f"{int(bitrate_kbps * 1000)}",
            "bufsize": f"{int(bitrate_kbps * 1000)}",
        }
    return options | {"crf": f"{20.0 if crf is None else crf:g}"}


def decode_with_losses(
    packets: list[Packet],
    lost: np.ndarray[tuple[int], np.dtype[np.bool_]],
    count: int,
    size: tuple[int, ...],
    decoder_name: str = "h264",
) -> Received:
    """`count` pictures of a stream some of whose packets never arrive; a missing picture is the last one again."""
    decoder = av.CodecContext.create(decoder_name, "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.thread_count = 1
    decoder.options = {"export_side_data": "venc_params"}
    shown: dict[int, tuple[Frames, float]] = {}
    arrived = [packet for packet, gone in zip(packets, lost, strict=True) if not gone]
    for packet in (*arrived, None):
        for picture in _decode_one(decoder, packet):
            if picture.pts is not None:
                shown[int(picture.pts)] = (to_rgb(picture), _quantiser(picture))
    if not shown:
        raise VideoError("nothing decodable is left of the stream; lower the loss")
    last = shown[min(shown)]
    output, quantisers = np.empty((count, *size, 3), np.uint8), np.empty(count)
    for index in range(count):
        last = shown.get(index, last)
        output[index], quantisers[index] = last
    return Received(output, quantisers)


def _quantiser(picture: av.VideoFrame) -> float:
    beside: Any = picture.side_data  # Any: PyAV's stub names one kind of side data only
    told = [one for one in (beside[index] for index in range(len(beside))) if isinstance(one, VideoEncParams)]
    return float(told[0].qp_map().mean()) if told else float("nan")


def _decode_one(decoder: VideoCodecContext, packet: Packet | None) -> list[av.VideoFrame]:
    try:
        return list(decoder.decode(packet))
    except av.FFmpegError:
        return []
