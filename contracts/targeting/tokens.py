"""From the text of a rule to its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from contracts.targeting.errors import RuleError
from contracts.targeting.limits import LIMITS


class Kind(StrEnum):
    """What a token is; the values are how errors call it."""

    NAME = "name"
    WORD = "quoted word"
    SIGN = "comparison"
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    END = "end of the rule"


KEYWORDS = frozenset({"and", "or", "not", "in"})
_TOKEN = re.compile(
    r"""(?P<gap>[ \t\r\n]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'"""
    r"""|(?P<sign>==|!=|<=|>=|<|>)|(?P<mark>[(),])"""
)
_MARKS = {"(": Kind.OPEN, ")": Kind.CLOSE, ",": Kind.COMMA}
_OFTEN = {
    "=": "write == to compare",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`, or != to compare",
    '"': 'close the quoted word with "',
    "'": "close the quoted word with '",
}


@dataclass(frozen=True)
class Token:
    """A token and where it begins."""

    kind: Kind
    text: str
    position: int

    def is_keyword(self, word: str) -> bool:
        return self.kind is Kind.NAME and self.text == word


def tokens(text: str) -> list[Token]:
    """The tokens of a rule, with one END. Raises RuleError."""
    if len(text) > LIMITS.text_chars:
        raise too_long("the rule")
    return [*_scan(text), Token(Kind.END, "", len(text))]


def too_long(what: str) -> RuleError:
    """The refusal of a rule that is too long."""
    remedy = "list devices by fewer words, or start two rollouts"
    return RuleError(LIMITS.text_chars, f"{what} is longer than {LIMITS.text_chars} characters", remedy)


def _scan(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unreadable(text, position)
        if found.lastgroup != "gap":
            yield _token(found)
        position = found.end()


def _token(found: re.Match[str]) -> Token:
    group, start = found.lastgroup or "", found.start()
    text = found.group(group)
    match group:
        case "name":
            return Token(Kind.NAME, text.lower(), start)
        case "sign":
            return Token(Kind.SIGN, text, start)
        case "mark":
            return Token(_MARKS[text], text, start)
        case _:
            return Token(Kind.WORD, text, start)


def _unreadable(text: str, position: int) -> RuleError:
    sign = text[position]
    remedy = _OFTEN.get(sign, 'rules are like: network != "weak" and version >= "1.4"')
    if sign.isdigit():
        remedy = "put it in quotes"
    return RuleError(position, f"{sign!r} means nothing here", remedy)
