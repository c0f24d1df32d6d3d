"""The tree of a rule. Frozen, comparable, without behaviour of its own.

Lists hold distinct words in order, so that one set of words has one tree.
"""

from __future__ import annotations

from dataclasses import dataclass

ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Among:
    """The fact is one of these words; as versions where the name is ordered."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Compare:
    """The fact, read as a version, lies on this side of `word`. `sign` is one of `ORDER`."""

    name: str
    sign: str
    word: str


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Rule


@dataclass(frozen=True)
class All:
    """Every part holds; two at least."""

    parts: tuple[Rule, ...]


@dataclass(frozen=True)
class Either:
    """One part holds or more; two at least."""

    parts: tuple[Rule, ...]


Rule = Among | Compare | Not | All | Either
