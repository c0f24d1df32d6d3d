"""From the text of a rule to its tree, by recursive descent.

    rule  = all ("or" all)*
    all   = part ("and" part)*
    part  = "not" part | "(" rule ")" | test
    test  = name ("==" | "!=" | "<" | "<=" | ">" | ">=") word | name ["not"] "in" "(" word ("," word)* ")"

`x != "w"` is `not x == "w"`; `x == "w"` is `x in ("w")`. Words are compared without regard to case, since tags are
lower case. Depth and length are bounded, so any text ends in a tree or a RuleError, quickly.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import lru_cache

from contracts.targeting.errors import RuleError
from contracts.targeting.facts import NAMES, ORDERED, SYNONYMS
from contracts.targeting.limits import LIMITS
from contracts.targeting.printer import render
from contracts.targeting.syntax import All, Among, Compare, Either, Not, Rule
from contracts.targeting.tokens import KEYWORDS, Kind, Token, tokens, too_long
from contracts.targeting.versions import is_version

_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
SHAPE = 'a test is like network == "weak" or model in ("a12", "b3")'


@lru_cache(maxsize=LIMITS.remembered)
def parse(text: str) -> Rule:
    """The tree of a rule. Raises RuleError with the place, the problem and the remedy."""
    reader = _Reader(tokens(text))
    rule = reader.rule(0)
    if reader.token.kind is not Kind.END:
        raise reader.unexpected("join tests with `and` or `or`")
    if len(render(rule)) > LIMITS.text_chars:
        raise too_long("in its normal spelling the rule")
    return rule


class _Reader:
    """The tokens and how far they were read."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens, self._at = found, 0

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def rule(self, depth: int) -> Rule:
        parts = self._chain("or", lambda: self._all(depth))
        return parts[0] if len(parts) == 1 else Either(parts)

    def _all(self, depth: int) -> Rule:
        parts = self._chain("and", lambda: self._part(depth))
        return parts[0] if len(parts) == 1 else All(parts)

    def _chain(self, word: str, read: Callable[[], Rule]) -> tuple[Rule, ...]:
        parts = [read()]
        while self.token.is_keyword(word):
            self._next()
            parts.append(read())
        return tuple(parts)

    def _part(self, depth: int) -> Rule:
        token = self.token
        if depth > LIMITS.depth:
            raise RuleError(
                token.position, f"nested deeper than {LIMITS.depth}", "write it flatter, or start two rollouts"
            )
        if token.is_keyword("not"):
            self._next()
            return Not(self._part(depth + 1))
        if token.kind is Kind.OPEN:
            self._next()
            rule = self.rule(depth + 1)
            self._expect(Kind.CLOSE, "close the parenthesis")
            return rule
        return self._test()

    def _test(self) -> Rule:
        name, ordered = self._name()
        token = self.token
        if token.kind is not Kind.SIGN and not token.is_keyword("in") and not token.is_keyword("not"):
            raise self.unexpected(SHAPE)
        self._next()
        if token.is_keyword("in"):
            return self._among(name)
        if token.is_keyword("not"):
            if not self.token.is_keyword("in"):
                raise self.unexpected(f'write {name} not in ("...")')
            self._next()
            return Not(self._among(name))
        if token.text in ("==", "!="):
            equal = Among(name, (self._word(name),))
            return equal if token.text == "==" else Not(equal)
        if not ordered:
            known = " and ".join(sorted(ORDERED))
            raise RuleError(token.position, f"{name} has no order, only {known} have", "use ==, != or in")
        return Compare(name, token.text, self._word(name))

    def _name(self) -> tuple[str, bool]:
        token = self.token
        if token.kind is not Kind.NAME or token.text in KEYWORDS:
            raise self.unexpected(SHAPE)
        name = SYNONYMS.get(token.text, token.text)
        if name not in NAMES:
            near = difflib.get_close_matches(token.text, [*NAMES, *SYNONYMS], 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise RuleError(token.position, f"no device says {token.text!r}", f"{meant}known: {', '.join(NAMES)}")
        self._next()
        return name, name in ORDERED

    def _among(self, name: str) -> Among:
        self._expect(Kind.OPEN, f'write {name} in ("...", "...")')
        words = [self._word(name)]
        while self.token.kind is Kind.COMMA:
            self._next()
            words.append(self._word(name))
        if len(words) > LIMITS.words:
            raise RuleError(self.token.position, f"more than {LIMITS.words} words in one list", "start two rollouts")
        self._expect(Kind.CLOSE, "end the list with `)`, part words with `,`")
        return Among(name, tuple(sorted(set(words))))

    def _word(self, name: str) -> str:
        token = self.token
        if token.kind is not Kind.WORD:
            raise self.unexpected('put the word in quotes, like "weak"')
        word = token.text.lower()
        if name in ORDERED and not is_version(word):
            raise RuleError(token.position, f"{token.text!r} is no version", 'versions are like "1.4" or "2.0.1"')
        if not _TAG.fullmatch(word):
            remedy = f"words have letters, digits, dot, dash, underscore, {LIMITS.word_chars} at most"
            raise RuleError(token.position, f"no device can say {token.text!r}", remedy)
        self._next()
        return word

    def _next(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def _expect(self, kind: Kind, remedy: str) -> None:
        if self.token.kind is not kind:
            raise self.unexpected(remedy)
        self._next()

    def unexpected(self, remedy: str) -> RuleError:
        token = self.token
        what = token.kind.value if token.kind is Kind.END else repr(token.text)
        return RuleError(token.position, f"{what} was not expected here", remedy)
