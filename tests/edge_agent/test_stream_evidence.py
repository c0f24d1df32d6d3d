"""What the decoder says of a frame counts as evidence, and only where the decoder says anything."""

from __future__ import annotations

import math
from pathlib import Path

import av
import numpy as np
import pytest

from edge_agent.observers.stream import HARD_FROM, expected_loss, hardness
from edge_agent.sources import VideoSource, decode

SCENE = np.random.default_rng(0).integers(0, 256, (18, 32, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)


def written(path: Path, codec: str, options: dict[str, str], pixel: str = "yuv420p") -> Path:
    """Six frames of a textured scene that moves."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt, stream.options = 256, 144, pixel, options
        for shift in range(6):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.roll(SCENE, 3 * shift, axis=1)), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_a_coarser_stream_has_the_coarser_quantiser(tmp_path: Path) -> None:
    means = []
    for crf in (20, 30, 40):
        path = written(tmp_path / f"{crf}.mp4", "libx264", {"crf": str(crf), "preset": "veryfast"})
        means.append(np.mean([found.quantiser for found in decode(str(path))]))
    assert means == sorted(means)
    assert means[2] - means[0] > 12


def test_a_lossless_recording_of_what_was_received_is_no_evidence(tmp_path: Path) -> None:
    path = written(tmp_path / "lossless.mp4", "libx264rgb", {"qp": "0"}, "rgb24")
    frame = VideoSource(str(path)).next()
    assert frame is not None
    assert frame.quantiser == 0.0
    assert hardness(1.0, 3.0, frame.quantiser) < 3.0


@pytest.mark.parametrize("codec", ["mpeg4", "ffv1"])
def test_a_codec_that_does_not_tell_leaves_the_picture_to_decide(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "other.mkv", codec, {})
    found = list(decode(str(path)))
    assert len(found) == 6
    assert all(math.isnan(one.quantiser) for one in found)
    assert hardness(1.0, 3.0, found[0].quantiser) < 3.0
    assert hardness(4.0, 3.0, found[0].quantiser) == 4.0


def test_either_evidence_makes_a_frame_hard() -> None:
    tau = 5.0
    assert hardness(2.0, tau, HARD_FROM - 1) < tau
    assert hardness(2.0, tau, HARD_FROM + 1) > tau
    assert hardness(9.0, tau, 10.0) == 9.0


def test_expected_loss_grows_and_is_bounded() -> None:
    losses = [expected_loss(step) for step in (0, 20, 26, 32, 40, 51, 1e9)]
    assert losses == sorted(losses)
    assert losses[0] == losses[1] == 0.0
    assert losses[-1] == losses[-2] < 15.0
    assert expected_loss(math.nan) == 0.0
