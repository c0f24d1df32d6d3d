"""Changed programs in the bench: each ends in one of four ways, and one that nobody saw is not ok."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import npu
from benchmarks.emulator import mutating
from benchmarks.emulator.mutating import Counts
from compiler.verifier import mutations
from tests.benchmarks.programs import program_of


def test_a_drawn_hundred_of_mutations_leaves_nothing_unseen() -> None:
    places, arithmetic = mutating.counted(limit=50)
    assert places.tried + arithmetic.tried == 100
    assert places.refused + places.caught + places.benign == places.tried
    assert places.missed == ()


def test_poison_catches_what_the_verifier_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "verify_program", lambda program, spec: [])
    places, _ = mutating.counted(limit=50)
    assert (places.refused, places.caught > 10) == (0, True)


def test_other_pixels_without_a_finding_are_a_miss() -> None:
    program = program_of(mutating.SHAPE)
    judged = mutating.judge(program)
    assert judged(program).same
    stream = program.commands(0)
    last = int(np.flatnonzero(stream["op"] == 2)[-1])
    changed = mutations.mutated(program, mutations.Mutation(last, ("clamp_lo",), 0, 250))
    judgement = judged(changed)
    assert (judgement.same, judgement.found) == (False, False)


def test_a_missed_mutation_is_a_figure_that_is_not_ok() -> None:
    good = npu.mutation_figures(Counts(10, 8, 1, 1, ()), Counts(2, 1, 0, 0, ("x",)))
    bad = npu.mutation_figures(Counts(10, 8, 1, 0, ("command 3: wait 4 -> 0",)), Counts(2, 2, 0, 0, ()))
    assert all(figure.ok for figure in good)
    assert [figure.id for figure in bad if not figure.ok] == ["mutations.missed"]
