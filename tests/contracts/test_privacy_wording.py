"""The documentation calls nothing anonymous but aggregates that name their epsilon and delta."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
CLAIM = re.compile(r"anonym|匿名", re.IGNORECASE)
ALLOWED = re.compile(r"\bnot (?:\w+ )?anonym|never anonym|不是匿名|非匿名", re.IGNORECASE)
EXPLAINS = Path("docs/explanation/privacy.md")


def careless(text: str) -> list[str]:
    """Lines that call data anonymous without denying it and without epsilon and delta beside the word."""
    return [
        line
        for line in text.splitlines()
        if CLAIM.search(line) and not ALLOWED.search(line) and not ("epsilon" in line and "delta" in line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_calls_data_anonymous(page: Path) -> None:
    if page.relative_to(ROOT) == EXPLAINS:
        return
    assert careless(page.read_text(encoding="utf-8")) == []


def test_the_page_that_explains_the_words_gives_both_of_them() -> None:
    text = (ROOT / EXPLAINS).read_text(encoding="utf-8")
    assert "minimised, pseudonymous" in text
    assert "epsilon" in text
    assert "delta" in text


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("Devices send anonymous features.", True),
        ("All telemetry is anonymised on the device.", True),
        ("We call such data pseudonymous, not anonymous.", False),
        ("Anonymous aggregates, epsilon 1, delta 1e-8.", False),
    ],
)
def test_the_check_itself_catches_a_careless_sentence(line: str, caught: bool) -> None:
    assert bool(careless(line)) is caught
