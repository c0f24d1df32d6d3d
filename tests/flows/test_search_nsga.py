"""The search changes affected stages only, respects the limit and repeats itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.errors import FlowError
from flows.search.nsga import Candidate, SearchSettings, pareto, search
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture

SMALL = SearchSettings(population=8, generations=4, limit=1.05)


def quality(architecture: Architecture) -> float:
    return float(sum(stage.depth * stage.mid for stage in architecture.stages)) ** 0.5


def latency(architecture: Architecture) -> float:
    return 1.0 + 0.1 * (architecture.depth - HAND_MADE.depth) + 1e-4 * sum(s.depth * s.mid for s in architecture.stages)


def test_unaffected_stages_are_inherited() -> None:
    result = search(DEFAULT_SPACE, HAND_MADE, (1,), quality, latency, SMALL)
    for candidate in result.evaluated:
        assert candidate.architecture.stages[0] == HAND_MADE.stages[0]
        assert candidate.architecture.stages[2] == HAND_MADE.stages[2]
    assert result.searched == (1,)


def test_the_choice_keeps_the_latency_limit_and_is_no_worse_than_what_it_replaces() -> None:
    result = search(DEFAULT_SPACE, HAND_MADE, (1, 2), quality, latency, SMALL)
    assert result.chosen.latency_ratio <= 1.05
    assert result.chosen.psnr >= quality(HAND_MADE)


def test_the_same_seed_gives_the_same_search() -> None:
    runs = [search(DEFAULT_SPACE, HAND_MADE, (1, 2), quality, latency, SMALL) for _ in range(2)]
    assert runs[0] == runs[1]


def test_each_network_is_evaluated_once() -> None:
    asked: list[Architecture] = []

    def counted(architecture: Architecture) -> float:
        asked.append(architecture)
        return quality(architecture)

    result = search(DEFAULT_SPACE, HAND_MADE, (1, 2), counted, latency, SMALL)
    assert len(asked) == len(set(asked)) == len(result.evaluated)


def test_a_limit_that_nothing_meets_is_an_error() -> None:
    with pytest.raises(FlowError, match="no network within"):
        search(DEFAULT_SPACE, HAND_MADE, (1,), quality, lambda _: 9.0, SMALL)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.5, 2)), min_size=1, max_size=30))
def test_no_member_of_the_front_is_beaten(points: list[tuple[float, float]]) -> None:
    candidates = tuple(Candidate(HAND_MADE, psnr, ratio) for psnr, ratio in points)
    front = pareto(candidates)
    for member in front:
        assert not any(
            other.psnr >= member.psnr and other.latency_ratio <= member.latency_ratio and
            (other.psnr, other.latency_ratio) != (member.psnr, member.latency_ratio)
            for other in candidates
        )  # fmt: skip
