"""Patches stay aligned between low and high resolution."""

from __future__ import annotations

import numpy as np
import pytest

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.errors import CorpusError
from flows.data.pairs import Pair, PairSet


def _pair(seed: int, side: int = 96) -> Pair:
    high = np.random.default_rng(seed).integers(0, 255, (3, side, side, 3), dtype=np.uint8)
    return Pair("clip", NORMAL, shrink(high, 2), high)


def test_patches_show_the_same_place_in_both_resolutions() -> None:
    pairs = PairSet((_pair(0), _pair(1, 128)))
    low, high = pairs.patches(12, 16, np.random.default_rng(3))
    assert low.shape == (12, 16, 16, 3)
    assert np.array_equal(shrink(high, 2), low)


def test_patches_repeat_with_the_seed() -> None:
    pairs = PairSet((_pair(0),))
    first, second = (pairs.patches(4, 16, np.random.default_rng(5))[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_empty_set_is_refused() -> None:
    with pytest.raises(CorpusError, match="at least one pair"):
        PairSet(())
