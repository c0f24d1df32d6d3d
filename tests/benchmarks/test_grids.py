"""The grids: a part of each is exact, a wrong byte shows, and figures carry the counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest

from benchmarks import grids
from benchmarks.gridding import case as judging
from benchmarks.gridding import convolutions, nodes, pairs, shuffles
from benchmarks.gridding.case import Case, Count, total


def every(cases: Sequence[Case], step: int) -> list[Case]:
    return list(islice(cases, 0, None, step))


@pytest.mark.parametrize(
    "cases",
    [every(list(shuffles.cases()), 9), every(list(convolutions.cases()), 73)],
    ids=["shuffles", "convolutions"],
)
def test_a_part_of_the_grid_is_exact(cases: list[Case]) -> None:
    count = total(cases)
    assert count.cases == len(cases)
    assert count.wrong == 0


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_all_pairs_of_bytes_are_exact_for_one_triple_of_scales(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "triples", lambda: [((0.1, 128), (0.3, 127), (0.2, 1))])
    count = pairs.total(operator)
    assert count.compared == 65_536
    assert count.wrong == 0


def test_node_tests_in_scope_are_exact_and_the_others_are_refused_with_one_error() -> None:
    scope = nodes.scope(("depthtospace", "spacetodepth", "maxpool", "pad", "qlinearconv"))
    assert scope.count.cases >= 15
    assert scope.count.wrong == 0
    assert all("; " in line for line in scope.refused)


def test_a_wrong_byte_is_counted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = judging.runtime_outputs

    def spoiled(*arguments: object) -> dict[str, np.ndarray]:  # type: ignore[type-arg]  # any array
        outputs = real(*arguments)  # type: ignore[arg-type]  # handed through
        for image in outputs.values():
            image.reshape(-1)[0] ^= 0x80
        return outputs

    monkeypatch.setattr(judging, "runtime_outputs", spoiled)
    first = next(shuffles.cases())
    count = judging.judge(first)
    assert (count.golden_wrong, count.device_wrong) == (1, 0)
    assert count.wrong_cases == (first.name,)
    figures = list(grids.figures_of("shuffles", count))
    assert [figure.ok for figure in figures] == [True, True, False]


def test_counts_add_up() -> None:
    both = Count(1, 10, 2, 3, 1, ("a",)) + Count(2, 5, 0, 1, 0, ("b",))
    assert both == Count(3, 15, 2, 4, 1, ("a", "b"))
    assert both.wrong == 6
