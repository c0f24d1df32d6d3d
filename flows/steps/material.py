"""Pairs as jobs read them: a file that any process maps, or the pairs themselves where the disk had no room for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import cast

from flows.data.pair_store import load_pairs, save_pairs
from flows.data.pairs import PairSet
from flows.errors import StorageError
from flows.spread.work import Work
from flows.steps.roles import PAIRS

Sets = Mapping[str, PairSet]


@dataclass(frozen=True)
class Material:
    """The `files` and `given` of jobs that need some sets of pairs."""

    files: Mapping[str, Path] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)


def laid(sets: Sets, path: Path) -> Material:
    """The sets in a file at `path`, which is written when it is not there."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            save_pairs(sets, path)
    except StorageError:
        return Material(given={PAIRS: sets})
    return Material(files={PAIRS: path})


def sets_of(work: Work) -> Sets:
    """The sets that a job was given."""
    if PAIRS in work.given:
        return cast("Sets", work.given[PAIRS])
    path = work.files[PAIRS]
    return _mapped(path, path.stat().st_ino, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _mapped(path: Path, _inode: int, _changed_ns: int) -> Sets:
    return load_pairs(path)
