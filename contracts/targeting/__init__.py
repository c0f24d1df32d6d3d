"""Rules that say which devices a release is for, in words that a person can read back.

    model in ("a12", "b3") and network != "weak" and scenario == "meeting" and version >= "1.4"

Platform and device read the same text by the same code; a service may translate the tree to SQL, and a test holds both
to the same answers. Grammar and meaning: `docs/reference/targeting.md`.

RuleError: the text is no rule; says where, what and the remedy.
"""

from contracts.targeting.errors import RuleError
from contracts.targeting.evaluate import holds
from contracts.targeting.facts import Facts, facts_of
from contracts.targeting.limits import LIMITS
from contracts.targeting.parser import parse
from contracts.targeting.printer import render
from contracts.targeting.syntax import All, Among, Compare, Either, Not, Rule

__all__ = [
    "LIMITS",
    "All",
    "Among",
    "Compare",
    "Either",
    "Facts",
    "Not",
    "Rule",
    "RuleError",
    "facts_of",
    "holds",
    "parse",
    "render",
]
