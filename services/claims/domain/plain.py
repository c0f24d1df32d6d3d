"""A text as the rules see it: without what hides words, and with the way back to the original places.

Full-width forms become plain, zero-width characters, emphasis marks and blanks between Chinese characters go, so
"零 延 迟" and "**零**延迟" read "零延迟". Code, comments and addresses become blanks: they claim nothing.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from dataclasses import dataclass

_SKIPPED = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`|<!--[^<]*-->|https?://\S+", re.MULTILINE | re.DOTALL)
_HAN = r"[㐀-䶿一-鿿]"
_BETWEEN_HAN = re.compile(rf"(?<={_HAN})[ \t　]+(?={_HAN})")
_MARKS = frozenset("*_​‌‍⁠﻿­")


@dataclass(frozen=True)
class Plain:
    """`text[i]` was at `places[i]` of the original; `line_starts` are the offsets of the original's lines."""

    text: str
    places: tuple[int, ...]
    line_starts: tuple[int, ...]

    def where(self, index: int) -> tuple[int, int]:
        """Line and column of the original, from 1, of a place of the plain text."""
        place = self.places[index]
        line = bisect.bisect_right(self.line_starts, place)
        return line, place - self.line_starts[line - 1] + 1


def plain(original: str) -> Plain:
    """The plain form of a text."""
    kept, places = [], []
    for place, character in enumerate(_SKIPPED.sub(_blank, original)):
        if character in _MARKS:
            continue
        folded = unicodedata.normalize("NFKC", character)
        kept.append(folded if len(folded) == 1 else character)
        places.append(place)
    text = "".join(kept)
    gone = {index for match in _BETWEEN_HAN.finditer(text) for index in range(*match.span())}
    starts = (0, *(match.end() for match in re.finditer("\n", original)))
    return Plain(
        "".join(character for index, character in enumerate(text) if index not in gone),
        tuple(place for index, place in enumerate(places) if index not in gone),
        starts,
    )


def _blank(match: re.Match[str]) -> str:
    return "".join(character if character == "\n" else " " for character in match.group())
