"""Versions as rules compare them: the dotted number that a word begins with.

What follows the number does not count ("1.4.0-rc1" is 1.4), trailing zeros neither (1.4 is 1.4.0); a word without one
is older than every version. So any two words can be compared, and `not (a < b)` is `a >= b`.
"""

from __future__ import annotations

import re

PATTERN = r"^[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}"
TRAILING_ZEROS = r"(?:\.0+)+$"
_NUMBER, _ZEROS = re.compile(PATTERN), re.compile(TRAILING_ZEROS)


def version_key(word: str) -> tuple[int, ...]:
    """Numbers of a version, to be compared as tuples; empty where the word begins with none."""
    found = _NUMBER.match(word)
    if found is None:
        return ()
    return tuple(int(part) for part in _ZEROS.sub("", found.group()).split("."))


def is_version(word: str) -> bool:
    """True for a word that is a dotted number and nothing else."""
    found = _NUMBER.match(word)
    return found is not None and found.group() == word
