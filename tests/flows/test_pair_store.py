"""Prepared pairs survive their process: the same frames, mapped; a damaged file is prepared again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.data.degrade import HARD, NORMAL
from flows.data.errors import CorpusError
from flows.data.pair_store import load_pairs, save_pairs
from flows.data.pairs import Pair, PairSet


def _pairs(seed: int, count: int = 2) -> PairSet:
    random = np.random.default_rng(seed)
    return PairSet(
        tuple(
            Pair(
                f"clip{n}",
                (NORMAL, HARD)[n % 2].with_seed(n),
                random.integers(0, 256, (3, 8, 12 + 4 * n, 3), np.uint8),
                random.integers(0, 256, (3, 16, 24 + 8 * n, 3), np.uint8),
            )
            for n in range(count)
        )
    )


def test_sets_come_back_as_they_were(tmp_path: Path) -> None:
    sets = {"normal": _pairs(1), "hard": _pairs(2, 3)}
    save_pairs(sets, tmp_path / "pairs.bin")
    found = load_pairs(tmp_path / "pairs.bin")
    assert list(found) == ["normal", "hard"]
    for name, pairs in sets.items():
        for one, other in zip(pairs.pairs, found[name].pairs, strict=True):
            assert (one.clip, one.degradation) == (other.clip, other.degradation)
            assert np.array_equal(one.low, other.low)
            assert np.array_equal(one.high, other.high)
            assert not other.low.flags.owndata, "mapped, not read"
        drawn = [one.draw(5, 4, np.random.default_rng(7)) for one in (pairs, found[name])]
        assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_file_that_is_cut_or_foreign_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "pairs.bin"
    save_pairs({"normal": _pairs(1)}, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorpusError, match=r"pairs\.bin is no file of prepared pairs.*remove it"):
        load_pairs(path)
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(CorpusError, match="a head of"):
        load_pairs(path)
