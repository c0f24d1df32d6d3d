"""A cohort-day in eight parts by chance, so that the test can be tried on days where nothing can have changed.

A device's part follows from its pseudonym, which is new every day: the parts differ by chance only. Raw reports go
once folded, and no device can be found in a part; what stays is enough to compare any four parts with the other four.
Histograms are not kept. Numbers are stored as float32: 14 kB a cohort-day.

Invariant: parts merge one by one, in any order, as `Votes` do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import SUBSPACE
from services.drift.domain.tally import SIZE, Tally
from services.drift.domain.votes import Votes

SHARDS = 8
_TRIANGLE = np.triu_indices(SUBSPACE)
_NUMBERS = 1 + SUBSPACE + len(_TRIANGLE[0]) + 2 * SIZE


def shard_of(pseudonym: str) -> int:
    """Return the part (0..7) of a device on the day of this pseudonym."""
    return hashlib.sha256(pseudonym.encode()).digest()[0] % SHARDS


@dataclass(frozen=True)
class Shards:
    """Votes of each of the eight parts; their histogram shares are zero."""

    parts: tuple[Votes, ...] = (Votes.empty(),) * SHARDS

    @classmethod
    def of(cls, parts: Sequence[Votes]) -> Shards:
        """Keep what a part needs. Raises ValueError unless there are eight."""
        if len(parts) != SHARDS:
            raise ValueError(f"a cohort-day has {SHARDS} parts, got {len(parts)}")
        empty = Votes.empty()
        return cls(tuple(replace(part, shares=empty.shares, share_squares=empty.share_squares) for part in parts))

    def merge(self, other: Shards) -> Shards:
        """Return the parts of both."""
        return Shards(tuple(one.merge(two) for one, two in zip(self.parts, other.parts, strict=True)))

    def halves(self) -> Iterator[tuple[Votes, Votes]]:
        """Yield each of the 35 ways to set four parts against the other four, in a fixed order."""
        for first in combinations(range(SHARDS), SHARDS // 2):
            if 0 in first:
                rest = [part for index, part in enumerate(self.parts) if index not in first]
                yield _together([self.parts[index] for index in first]), _together(rest)

    def to_bytes(self) -> bytes:
        """Write as little-endian float32."""
        return np.concatenate([_flat(part) for part in self.parts]).astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Shards:
        """Inverse of `to_bytes`. Raises ValueError when the bytes were written by another version."""
        numbers = np.frombuffer(data, "<f4").astype(np.float64)
        if len(numbers) != SHARDS * _NUMBERS:
            raise ValueError(f"stored parts hold {len(numbers)} numbers: written by another version")
        return cls(tuple(_unflat(part) for part in np.split(numbers, SHARDS)))


def _together(parts: Sequence[Votes]) -> Votes:
    return reduce(Votes.merge, parts, Votes.empty())


def _flat(part: Votes) -> NDArray[np.float64]:
    numbers = (np.array([float(part.count)]), part.mean, part.comoments[_TRIANGLE])
    return np.concatenate([*numbers, part.scores.flat(), part.residual.flat()])


def _unflat(numbers: NDArray[np.float64]) -> Votes:
    count, mean, triangle, scores, residual = np.split(numbers, np.cumsum((1, SUBSPACE, len(_TRIANGLE[0]), SIZE)))
    comoments = np.zeros((SUBSPACE, SUBSPACE))
    comoments[_TRIANGLE] = triangle
    return replace(
        Votes.empty(),
        count=int(count[0]),
        mean=mean,
        comoments=comoments + np.triu(comoments, 1).T,
        scores=Tally.from_flat(scores),
        residual=Tally.from_flat(residual),
    )
