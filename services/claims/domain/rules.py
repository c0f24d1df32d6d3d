"""The rulebook: which words are forbidden, what counts as a measured number, what counts as a test condition.

Rules are data (`rules.toml`, or a file of the user's own); this module turns the parsed document into checked values.
Raises RulesError, naming the rule and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FLAGS = re.IGNORECASE


class RulesError(ValueError):
    """The rule file is wrong."""


class Severity(StrEnum):
    """`error` stops a release text, `warning` does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """A wording that is not allowed: what to look for, why it is wrong, what to write instead."""

    id: str
    pattern: re.Pattern[str]
    message: str
    remedy: str
    severity: Severity


@dataclass(frozen=True)
class Rulebook:
    """All rules. `units` maps each spelling of a unit to its canonical one; `conditions` finds a test condition;
    `no_claim` finds numbers with a unit that claim nothing (a zoom factor, a file format)."""

    version: str
    wording: tuple[Rule, ...]
    units: Mapping[str, str]
    conditions: re.Pattern[str]
    no_claim: re.Pattern[str]


def parse(document: Mapping[str, Any]) -> Rulebook:  # Any: parsed TOML
    """The rulebook of a parsed TOML document."""
    numbers = document.get("numbers")
    rules = document.get("rule")
    if not isinstance(numbers, dict) or not isinstance(rules, list) or not rules:
        raise RulesError(
            "a rule file wants a table [numbers] and at least one [[rule]]; see rules.toml of this version"
        )
    wording = tuple(_rule(entry) for entry in rules)
    ids = [rule.id for rule in wording]
    if len(set(ids)) != len(ids):
        raise RulesError(f"rule ids must be unique; twice: {sorted({id for id in ids if ids.count(id) > 1})}")
    units = {spelling: unit for unit, spellings in numbers.get("units", {}).items() for spelling in (unit, *spellings)}
    if not units:
        raise RulesError("[numbers.units] names no unit; without one no number would ever be looked at")
    return Rulebook(
        version=str(document.get("version", "")),
        wording=wording,
        units={spelling.lower(): unit for spelling, unit in units.items()},
        conditions=_any_of(numbers, "conditions"),
        no_claim=_any_of(numbers, "no_claim"),
    )


def _rule(entry: Mapping[str, Any]) -> Rule:  # Any: parsed TOML
    name = str(entry.get("id", "?"))
    missing = [key for key in ("id", "pattern", "message", "remedy") if not entry.get(key)]
    if missing:
        raise RulesError(f"rule {name!r} lacks {', '.join(missing)}; add it to the rule")
    try:
        severity = Severity(entry.get("severity", "error"))
    except ValueError as error:
        raise RulesError(f"rule {name!r}: severity {entry['severity']!r} is unknown; write error or warning") from error
    return Rule(name, _compiled(name, entry["pattern"]), str(entry["message"]), str(entry["remedy"]), severity)


def _any_of(numbers: Mapping[str, Any], key: str) -> re.Pattern[str]:  # Any: parsed TOML
    patterns = numbers.get(key) or []
    for pattern in patterns:
        _compiled(f"numbers.{key}", pattern)
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)", FLAGS)


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern, FLAGS)
    except (re.error, TypeError) as error:
        raise RulesError(f"rule {name!r}: pattern {pattern!r} is not a regular expression ({error})") from error
    if compiled.match(""):
        raise RulesError(f"rule {name!r}: pattern {pattern!r} matches nothing at all; every place would be a finding")
    return compiled
