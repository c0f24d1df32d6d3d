"""Picture quality as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from services.builds.quality import Disagreement, ShapeMismatch, disagreement, flicker, merge, nearest, psnr


def _grey(value: int, frames: int = 2) -> np.ndarray:
    return np.full((frames, 8, 8, 3), value, np.uint8)


def test_psnr_of_a_constant_error_is_the_textbook_value() -> None:
    assert psnr(_grey(100), _grey(110)) == pytest.approx(20 * np.log10(255 / 10))


def test_identical_pictures_stay_finite() -> None:
    assert psnr(_grey(7), _grey(7)) == 100.0


def test_psnr_is_the_mean_over_frames() -> None:
    truth = _grey(100)
    ours = np.stack([truth[0], truth[1] + 10])
    assert psnr(ours, truth) == pytest.approx((100.0 + 20 * np.log10(255 / 10)) / 2)


def test_a_steady_error_does_not_flicker() -> None:
    assert flicker(_grey(90), _grey(100), np.zeros(2, np.int64)) == 0.0


def test_a_changing_error_flickers_by_its_change() -> None:
    ours = np.stack([_grey(100)[0], _grey(106)[0]])
    assert flicker(ours, _grey(100), np.zeros(2, np.int64)) == pytest.approx(6.0)


def test_a_cut_between_clips_is_no_flicker() -> None:
    ours = np.stack([_grey(100)[0], _grey(106)[0]])
    assert flicker(ours, _grey(100), np.array([0, 1])) is None


def test_nearest_repeats_every_pixel() -> None:
    small = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    assert nearest(small)[0, :, :, 0].tolist() == [[0, 0, 3, 3], [0, 0, 3, 3], [6, 6, 9, 9], [6, 6, 9, 9]]


def test_disagreement_counts_values_and_keeps_the_largest() -> None:
    left = np.array([0, 1, 2, 255], np.uint8)
    right = np.array([0, 1, 3, 250], np.uint8)
    assert disagreement(left, right) == Disagreement(5, 0.5, 4)


def test_merged_disagreement_weighs_by_values() -> None:
    assert merge([Disagreement(1, 1.0, 10), Disagreement(3, 0.0, 30)]) == Disagreement(3, 0.25, 40)


def test_different_shapes_are_refused() -> None:
    with pytest.raises(ShapeMismatch, match=r"\(2, 8, 8, 3\).*\(3, 8, 8, 3\)"):
        psnr(_grey(1), _grey(1, 3))
