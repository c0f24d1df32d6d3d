"""Which side of the split each person is on: whole groups only, the same for the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from flows.data.corpus import Split
from flows.data.errors import CorpusError

_EVERY = 5
_EARLY = 0.6


def sides(groups: Sequence[str], held_out: Sequence[str] = ()) -> Mapping[str, Split]:
    """Every fifth group in name order is held out, or the named ones; at least one, and never all of two or more."""
    names = sorted(set(groups))
    if unknown := sorted(set(held_out) - set(names)):
        raise CorpusError(f"cannot hold out {', '.join(unknown)}: no such person or scene; known: {', '.join(names)}")
    chosen = set(held_out) or set(names[_EVERY - 1 :: _EVERY]) or {names[-1]}
    if len(chosen) == len(names) > 1:
        raise CorpusError("every person or scene is held out, so nothing is left to learn from; hold out fewer")
    return {name: Split.HELD_OUT if name in chosen else Split.TRAIN for name in names}


def by_scene(name: str, frames: int, cuts: Sequence[int]) -> list[tuple[int, int, Split]]:
    """(start, stop, side) of each scene of a lone video: scenes that end in its first 60 % train, the rest judge.

    Raises CorpusError when it has one scene only: frames of one scene on both sides would prove nothing.
    """
    if not cuts:
        raise CorpusError(
            f"{name} is the only usable video and has one scene, so nothing is left to judge by; "
            "add a video of another person or scene"
        )
    bounds = [0, *cuts, frames]
    found = [(a, b, Split.TRAIN if b <= _EARLY * frames else Split.HELD_OUT) for a, b in pairwise(bounds)]
    start, stop, _ = found[0]
    return [(start, stop, Split.TRAIN), *found[1:]]
