"""The claims linter: forbidden wording, numbers without a test condition, numbers without evidence.

A claim is a sentence. A number with a unit must name its test condition in that sentence, and may cite evidence as
`[evidence: ID]` (`[证据：ID]`) before the full stop; a citation is followed: the evidence must exist, still be kept
and hold that number. A line with `claims-allow: RULE because REASON` silences one rule on that line, with a reason for
the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from services.claims.domain.numbers import Number, numbers
from services.claims.domain.plain import Plain, plain
from services.claims.domain.rules import Rule, Rulebook, Severity

CITATION = re.compile(r"[\[【]\s*(?:evidence|证据)\s*[:：]\s*([A-Za-z0-9][A-Za-z0-9.-]{0,63})\s*[\]】]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[。!?;；！？]|\.(?=\s|$)|\n[ \t]*\n|\n(?=[ \t]*(?:[-+•|#>]|\d{1,3}[.)])[ \t])|(?<=\|)\n")
_ALLOW = re.compile(r"claims-allow:\s*([a-z0-9-]+)\s+because\s+\S")

NO_CONDITION, NO_EVIDENCE, UNKNOWN, ENDED, OTHER_NUMBER, NOT_FOLLOWED = (
    "number-without-condition",
    "number-without-evidence",
    "evidence-unknown",
    "evidence-past-its-term",
    "number-not-in-evidence",
    "evidence-not-followed",
)


@dataclass(frozen=True)
class Finding:
    """Something that must not, or should not, be published. Line and column count from 1."""

    rule: str
    severity: Severity
    line: int
    column: int
    text: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Proof:
    """What one piece of evidence holds: its numbers with canonical units, and until when it is kept."""

    values: frozenset[tuple[Decimal, str]]
    keep_until: datetime


Proofs = Mapping[str, Proof]


def lint(text: str, book: Rulebook, proofs: Proofs | None = None, now: datetime | None = None) -> list[Finding]:
    """Every finding, in the order of the text. `proofs` None: citations cannot be followed, which is a warning."""
    seen = plain(text)
    found = [*_wording(seen, book.wording)]
    for start, end in _sentences(seen.text):
        found += _claim(seen, start, end, book, proofs, now)
    allowed = _allowed(text)
    kept = (finding for finding in found if finding.rule not in allowed.get(finding.line, ()))
    return sorted(kept, key=lambda finding: (finding.line, finding.column, finding.rule))


def _wording(seen: Plain, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    for rule in rules:
        for match in rule.pattern.finditer(seen.text):
            line, column = seen.where(match.start())
            yield Finding(rule.id, rule.severity, line, column, match.group(), rule.message, rule.remedy)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield start, match.end()
        start = match.end()
    yield start, len(text)


def _claim(
    seen: Plain, start: int, end: int, book: Rulebook, proofs: Proofs | None, now: datetime | None
) -> Iterator[Finding]:
    sentence = seen.text[start:end]
    no_claim = [match.span() for match in book.no_claim.finditer(sentence)]
    cited = CITATION.findall(sentence)
    conditioned = book.conditions.search(sentence) is not None
    claimed = [
        number
        for number in numbers(CITATION.sub(lambda match: " " * len(match.group()), sentence), book.units)
        if not any(first <= number.start < last for first, last in no_claim)
    ]
    for number in claimed:
        for rule, severity, message, remedy in _faults(number, conditioned, cited, proofs, now):
            line, column = seen.where(start + number.start)
            yield Finding(rule, severity, line, column, sentence[number.start : number.end], message, remedy)


def _faults(
    number: Number, conditioned: bool, cited: list[str], proofs: Proofs | None, now: datetime | None
) -> Iterator[tuple[str, Severity, str, str]]:
    if not conditioned:
        yield (
            NO_CONDITION,
            Severity.ERROR,
            "a number without its test condition",
            "say in the same sentence on what and how it was measured (device, scene, length, metric)",
        )
    if not cited:
        yield (
            NO_EVIDENCE,
            Severity.WARNING,
            "a number without evidence",
            "file it with `edgeloop evidence add` and cite it as [evidence: ID] before the full stop",
        )
    elif proofs is None:
        yield (
            NOT_FOLLOWED,
            Severity.WARNING,
            f"evidence {', '.join(cited)} was not looked at",
            "give --archive FILE, or --url and --token of the platform that keeps it",
        )
    else:
        yield from _faults_of_citations(number, cited, proofs, now)


def _faults_of_citations(
    number: Number, cited: list[str], proofs: Proofs, now: datetime | None
) -> Iterator[tuple[str, Severity, str, str]]:
    known = [proofs[name] for name in cited if name in proofs]
    for name in cited:
        if name not in proofs:
            yield (
                UNKNOWN,
                Severity.ERROR,
                f"evidence {name} does not exist",
                "check the id with `edgeloop evidence list`",
            )
        elif now is not None and proofs[name].keep_until <= now:
            until = proofs[name].keep_until.date().isoformat()
            yield (ENDED, Severity.ERROR, f"evidence {name} was kept until {until} only", "measure again and file it")
    if known and not any((number.value, number.unit) in proof.values for proof in known):
        yield (
            OTHER_NUMBER,
            Severity.ERROR,
            f"the evidence {', '.join(cited)} does not hold {number.value} {number.unit}",
            "write the number that was measured, or cite the evidence that holds it",
        )


def _allowed(text: str) -> dict[int, frozenset[str]]:
    lines = enumerate(text.split("\n"), 1)
    return {number: frozenset(_ALLOW.findall(line)) for number, line in lines if "claims-allow:" in line}
