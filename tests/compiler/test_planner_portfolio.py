"""Several search processes: one decisive answer ends the race, whoever gives it."""

from __future__ import annotations

import pytest

from compiler.memory import portfolio
from compiler.memory.problem import problems
from compiler.memory.valley_search import Outcome, Settings
from tests.compiler.packings import guillotine
from tests.compiler.test_planner import ABOVE_ITS_BOUND


def test_processes_find_a_packing_and_prove_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "ALONE_STEPS", 1)
    together = portfolio.searcher(2)
    (packing,) = problems(ABOVE_ITS_BOUND, 1)
    assert together(packing, 9, Settings(), None).outcome is Outcome.FOUND
    assert together(packing, 8, Settings(restart=10_000), None).outcome is Outcome.IMPOSSIBLE


def test_a_search_that_ends_early_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_race", lambda *_: pytest.fail("no process is needed"))
    for part in problems(guillotine(1, count=30, steps=12, capacity=100), 1):
        assert portfolio.searcher(2)(part, 100 // part.unit, Settings(), None).outcome is Outcome.FOUND
