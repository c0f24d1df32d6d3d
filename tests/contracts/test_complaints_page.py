"""The page of complaints names behaviour that is tested: every test on it exists, and no complaint is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "complaints-flywheel.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", PAGE)
NUMBERS = [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
COMPLAINTS = 23


def exists(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.is_file() and re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_test_on_the_page_exists(file: str, name: str) -> None:
    assert exists(file, name)


def test_every_complaint_has_its_row_and_every_row_a_test() -> None:
    assert list(range(1, COMPLAINTS + 1)) == NUMBERS
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "|---" not in line]
    heads = {"| | complaint | here | test |", "| what comes | what happens | test |"}
    assert {row for row in rows if "::test_" not in row} == heads


def test_the_check_itself_finds_a_test_that_is_not_there() -> None:
    assert not exists("contracts/test_complaints_page.py", "test_nothing")
    assert not exists("contracts/test_no_such_page.py", "test_every_test_on_the_page_exists")
