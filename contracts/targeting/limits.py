"""Bounds of a rule, so that no text costs a device time or memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetingLimits:
    """Characters of a rule and of a word in it, nesting of parentheses and `not`, words of a list, rules remembered."""

    text_chars: int = 512
    word_chars: int = 32
    depth: int = 8
    words: int = 64
    remembered: int = 256


LIMITS = TargetingLimits()
