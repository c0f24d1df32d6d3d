"""The pages of complaints name behaviour that is tested: every test on them exists, and no complaint is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPLAINTS = {"complaints-flywheel": 23, "complaints-learning": 18}
PAGES = {name: (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in COMPLAINTS}
NAMED = [found for page in PAGES.values() for found in re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", page)]
HEADS = {
    "| | complaint | here | test |", "| | report | here | test |", "| what comes | what happens | test |",
}  # fmt: skip


def exists(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.is_file() and re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_test_on_the_page_exists(file: str, name: str) -> None:
    assert exists(file, name)


@pytest.mark.parametrize("name", PAGES)
def test_every_complaint_has_its_row_and_every_row_a_test(name: str) -> None:
    page = PAGES[name]
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert list(range(1, COMPLAINTS[name] + 1)) == numbers
    rows = [line for line in page.splitlines() if line.startswith("| ") and "|---" not in line]
    assert {row for row in rows if "::test_" not in row} <= HEADS


def test_the_check_itself_finds_a_test_that_is_not_there() -> None:
    assert not exists("contracts/test_complaints_page.py", "test_nothing")
    assert not exists("contracts/test_no_such_page.py", "test_every_test_on_the_page_exists")
