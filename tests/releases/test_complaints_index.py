"""Every complaint and every kind of bad input has a test that exists under the name that the list gives."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.releases.complaints import BAD_INPUT, COMPLAINTS

ROOT = Path(__file__).resolve().parents[2]


@cache
def names(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_all_22_complaints_are_answered() -> None:
    assert [int(one.split(" ", 1)[0]) for one in COMPLAINTS] == list(range(1, 23))


@pytest.mark.parametrize(("what", "tests"), [*COMPLAINTS.items(), *BAD_INPUT.items()])
def test_the_tests_that_answer_it_exist(what: str, tests: tuple[str, ...]) -> None:
    assert tests, what
    missing = [one for one in tests if one.split("::")[1] not in names(one.split("::")[0])]
    assert not missing, f"{what}: {missing}"
