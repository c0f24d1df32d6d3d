"""A rule as a condition of SQL over `devices`: the answers of `contracts.targeting.holds`, for every device at once.

A tag that a device lacks is the empty word here too, so no part of a condition is ever NULL and `not` is exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, and_, func, literal, not_, or_, type_coerce
from sqlalchemy.sql.elements import ColumnElement

from contracts.targeting import All, Among, Compare, Either, Not, Rule
from contracts.targeting.facts import ORDERED, VERSION
from contracts.targeting.versions import PATTERN, TRAILING_ZEROS, version_key
from services.releases.models import Device

NUMBERS, TEXTS = ARRAY(BigInteger), ARRAY(Text)
_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {  # Any: operators of SQLAlchemy's columns
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def condition(rule: Rule) -> ColumnElement[bool]:
    """True for the devices for which the rule holds."""
    match rule:
        case Among(name, words):
            return _among(name, words)
        case Compare(name, sign, word):
            compared: ColumnElement[bool] = _SIGNS[sign](_version(name), _numbers(word))
            return compared
        case Not(part):
            return not_(condition(part))
        case All(parts):
            return and_(*(condition(part) for part in parts))
        case Either(parts):
            return or_(*(condition(part) for part in parts))


def _among(name: str, words: Sequence[str]) -> ColumnElement[bool]:
    if name in ORDERED:
        return or_(*(_version(name) == _numbers(word) for word in words))
    return _text(name).in_(list(words))


def _text(name: str) -> ColumnElement[str]:
    if name == VERSION:
        return Device.agent_version.expression
    return func.coalesce(Device.tags[name].astext, "")


def _version(name: str) -> ColumnElement[Sequence[int]]:
    """`version_key` of a fact: arrays of numbers compare like Python's tuples."""
    number = func.substring(_text(name), PATTERN)
    parts = func.regexp_replace(number, TRAILING_ZEROS, "")
    none: Sequence[int] = ()
    return func.coalesce(type_coerce(func.string_to_array(parts, "."), TEXTS).cast(NUMBERS), _array(none))


def _numbers(word: str) -> ColumnElement[Sequence[int]]:
    return _array(version_key(word))


def _array(numbers: Sequence[int]) -> ColumnElement[Sequence[int]]:
    return literal(list(numbers), NUMBERS).cast(NUMBERS)
