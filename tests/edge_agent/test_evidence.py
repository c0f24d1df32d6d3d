"""What the decoder says of a frame counts as evidence, and only where the decoder says anything."""

from __future__ import annotations

import math
from pathlib import Path

import av
import numpy as np
import pytest

from edge_agent.observers.evidence import GRAIN, SOFTNESS, STREAM, hardness
from edge_agent.observers.signs import Signs, grain, sharpness, signs_of
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
    assert hardness(1.0, 3.0, frame.quantiser, Signs()) < 3.0


@pytest.mark.parametrize("codec", ["mpeg4", "ffv1"])
def test_a_codec_that_does_not_tell_leaves_the_picture_to_decide(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "other.mkv", codec, {})
    found = list(decode(str(path)))
    assert len(found) == 6
    assert all(math.isnan(one.quantiser) for one in found)
    assert hardness(1.0, 3.0, found[0].quantiser, Signs()) < 3.0
    assert hardness(4.0, 3.0, found[0].quantiser, Signs()) == 4.0


def test_either_evidence_makes_a_frame_hard() -> None:
    tau = 5.0
    well = Signs(grain=1.0, sharpness=0.9)
    assert hardness(2.0, tau, STREAM.bound - 1, well) < tau
    assert hardness(2.0, tau, STREAM.bound + 1, well) > tau
    assert hardness(2.0, tau, 20.0, Signs(grain=GRAIN.bound + 1, sharpness=0.9)) > tau
    assert hardness(2.0, tau, 20.0, Signs(grain=1.0, sharpness=-SOFTNESS.bound - 0.05)) > tau
    assert hardness(9.0, tau, 10.0, well) == 9.0


def test_expected_loss_grows_and_is_bounded() -> None:
    losses = [STREAM.loss(step) for step in (0, 20, 26, 32, 40, 51, 1e9)]
    assert losses == sorted(losses)
    assert losses[0] == losses[1] == 0.0
    assert losses[-1] == 15.0
    assert STREAM.loss(math.nan) == 0.0


@pytest.mark.parametrize("sigma", [3.0, 8.0, 16.0])
def test_grain_is_the_deviation_of_noise_on_a_flat_picture(sigma: float) -> None:
    flat = np.random.default_rng(1).normal(128.0, sigma, (192, 320)).astype(np.float32)
    assert grain(flat) == pytest.approx(sigma, rel=0.15)


def test_grain_does_not_count_planes_and_sharpness_does_not_count_contrast() -> None:
    plane = np.add.outer(np.arange(192), np.arange(320)).astype(np.float32) / 3
    assert grain(plane) < 0.01
    scene = SCENE[..., 0].astype(np.float32)
    assert sharpness(scene) == pytest.approx(sharpness(0.3 * scene + 40), rel=1e-3)


def test_sharpness_falls_with_blur() -> None:
    found = []
    scene = SCENE[..., 0].astype(np.float32)
    for taps in (1, 2, 3):
        line = np.ones(taps, np.float32) / taps
        soft = np.apply_along_axis(lambda row, k=line: np.convolve(row, k, "same"), 0, scene)
        found.append(sharpness(np.apply_along_axis(lambda row, k=line: np.convolve(row, k, "same"), 1, soft)))
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[2] < 0.65


def test_a_flat_or_tiny_picture_gives_no_evidence() -> None:
    assert math.isnan(signs_of(np.full((96, 96, 3), 77, np.uint8)).sharpness)
    assert math.isnan(signs_of(np.zeros((16, 16, 3), np.uint8)).grain)
    assert hardness(1.0, 3.0, math.nan, Signs()) == 1.0
