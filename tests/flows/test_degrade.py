"""Degradations and the codec: deterministic, in physical order, real losses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.data.clips import Frames, decode
from flows.data.codec import encode, transcode, write_lossless
from flows.data.degrade import (
    HARD,
    HARD_VARIETY,
    NORMAL,
    Degradation,
    blur,
    degrade,
    draw_hard,
    drop_frames,
    sense,
)
from flows.data.errors import VideoError


@pytest.fixture(scope="module")
def clip() -> Frames:
    """A bright square that moves over a textured ramp."""
    texture = np.random.default_rng(0).uniform(-20, 20, (80, 96, 3))
    ramp = np.linspace(20, 220, 96)[None, :, None] + texture
    frames = np.repeat(ramp[None].astype(np.uint8), 24, axis=0)
    for index in range(24):
        frames[index, 20:40, 2 * index : 2 * index + 16] = 250
    return frames


def test_equal_conditions_give_equal_bytes(clip: Frames) -> None:
    first, second = degrade(clip, HARD), degrade(clip, HARD)
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[0], degrade(clip, HARD.with_seed(9))[0])


def test_pair_is_half_size_and_target_is_the_clean_dark_scene(clip: Frames) -> None:
    low, target = degrade(clip, HARD)
    assert low.shape == (24, 40, 48, 3)
    assert target.shape == clip.shape
    assert np.array_equal(target, np.rint(clip * HARD.gain).astype(np.uint8))


def test_noise_grows_with_light(clip: Frames) -> None:
    condition = Degradation(noise=10.0)
    flat = np.stack([np.full((64, 64, 3), level, np.uint8) for level in (16, 200)])
    dark, bright = (float(np.std(frame)) for frame in sense(flat, condition))
    assert 4.0 < dark < 7.0
    assert 8.0 < bright < 10.5


def test_lower_quality_means_fewer_bytes_and_larger_error(clip: Frames) -> None:
    fine, coarse = (sum(p.size for p in encode(clip, crf=crf)) for crf in (20.0, 38.0))
    assert coarse < fine / 2
    errors = [float(np.abs(transcode(clip, crf=crf).astype(int) - clip).mean()) for crf in (20.0, 38.0)]
    assert errors[0] < errors[1]


def test_bit_rate_is_respected(clip: Frames) -> None:
    noisy = sense(np.repeat(clip, 4, axis=0), Degradation(noise=20.0))
    size = sum(p.size for p in encode(noisy, crf=None, bitrate_kbps=100.0))
    assert size * 8 * 25 / len(noisy) / 1000 < 160.0


def test_lost_packets_keep_the_number_of_frames_and_hurt(clip: Frames) -> None:
    whole, broken = transcode(clip), transcode(clip, loss=0.3, seed=4)
    assert broken.shape == whole.shape
    assert not np.array_equal(whole, broken)
    assert np.array_equal(whole[0], broken[0])


def test_dropped_frames_repeat_their_predecessor(clip: Frames) -> None:
    dropped = drop_frames(clip, 0.5, seed=2)
    repeats = [i for i in range(1, 24) if np.array_equal(dropped[i], dropped[i - 1])]
    assert repeats
    assert all(np.array_equal(dropped[i], clip[i]) for i in range(24) if i not in repeats)


def test_blur_keeps_the_mean_and_lowers_contrast() -> None:
    image = np.random.default_rng(0).uniform(0, 255, (32, 32, 3)).astype(np.float32)
    soft = blur(image, 1.0)
    assert soft.std() < 0.5 * image.std()
    assert soft.mean() == pytest.approx(image.mean(), rel=0.02)


def test_odd_sides_are_refused_with_a_remedy() -> None:
    with pytest.raises(VideoError, match="even sides"):
        transcode(np.zeros((2, 33, 48, 3), np.uint8))


def test_lossless_file_gives_back_the_same_pixels(clip: Frames, tmp_path: Path) -> None:
    received, _ = degrade(np.repeat(clip, 2, axis=1)[:, :128], HARD)
    write_lossless(tmp_path / "clip.mp4", received)
    assert np.array_equal(decode(tmp_path / "clip.mp4"), received)


def test_json_round_trip() -> None:
    for condition in (NORMAL, *HARD_VARIETY, replace(HARD, bitrate_kbps=90.0)):
        assert Degradation.from_json(condition.to_json()) == condition


def test_drawn_conditions_lie_between_the_mild_and_the_strong_one() -> None:
    random = np.random.default_rng(0)
    for seed in range(20):
        drawn = draw_hard(random, seed)
        assert HARD_VARIETY[-1].gain <= drawn.gain <= HARD_VARIETY[0].gain
        assert HARD_VARIETY[0].crf <= drawn.crf <= HARD_VARIETY[-1].crf
