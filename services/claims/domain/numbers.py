"""Measured numbers in a sentence: "25 ms", "30%", "三倍", with a canonical unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

_WORDS = {"一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10, "百": 100}


@dataclass(frozen=True)
class Number:
    """A number with a unit, and where it stands (offsets within the text that was searched)."""

    value: Decimal
    unit: str
    start: int
    end: int


def numbers(text: str, units: Mapping[str, str]) -> Iterator[Number]:
    """Every number that is followed by one of the units; `units` maps lower-case spellings to the canonical unit."""
    spellings = "|".join(re.escape(spelling) for spelling in sorted(units, key=len, reverse=True))
    digits = r"\d{1,12}(?:,\d{3}){0,4}(?:\.\d{1,9})?"
    pattern = rf"(?<![\w.])(?:({digits})|([{''.join(_WORDS)}]))[ \t]?({spellings})(?![A-Za-z0-9])"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        written, word, unit = match.groups()
        value = Decimal(written.replace(",", "")) if written else Decimal(_WORDS[word])
        yield Number(value, units[unit.lower()], match.start(), match.end())
