"""Whether a rule holds for a device: a pure function, the same on both ends.

A fact that a device does not tell is the empty word: it is none of the listed words, and as a version older than all.
Logic is two-valued, so `not` is exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from contracts.targeting.facts import ORDERED, Facts
from contracts.targeting.syntax import All, Among, Compare, Either, Not, Rule
from contracts.targeting.versions import version_key

_Versions = tuple[int, ...]
_SIGNS: Mapping[str, Callable[[_Versions, _Versions], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(rule: Rule, facts: Facts) -> bool:
    """True when the device that says `facts` is meant."""
    match rule:
        case Among(name, words):
            said = facts.get(name, "")
            if name in ORDERED:
                return version_key(said) in [version_key(word) for word in words]
            return said in words
        case Compare(name, sign, word):
            return _SIGNS[sign](version_key(facts.get(name, "")), version_key(word))
        case Not(part):
            return not holds(part, facts)
        case All(parts):
            return all(holds(part, facts) for part in parts)
        case Either(parts):
            return any(holds(part, facts) for part in parts)
