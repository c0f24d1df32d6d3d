"""The placement planner: valid, never below its bound, never worse than greedy, and right about what it proves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.memory import Buffer
from compiler.memory.check import faults
from compiler.memory.greedy import place
from compiler.memory.placement import Placement, Proof
from compiler.memory.planner import Effort, plan_placement
from compiler.memory.problem import lower_bound, problems
from compiler.memory.valley_search import Outcome, Settings, search
from tests.compiler.packings import guillotine, smallest_peak

# The most units alive at once are 8, yet every placement needs 9: (size, first, last).
ABOVE_ITS_BOUND = [
    Buffer("a", 2, 3, 6),
    Buffer("b", 4, 6, 7),
    Buffer("c", 4, 1, 4),
    Buffer("d", 3, 0, 2),
    Buffer("e", 1, 3, 5),
    Buffer("f", 4, 7, 7),
    Buffer("g", 2, 0, 0),
    Buffer("h", 1, 0, 3),
    Buffer("i", 1, 0, 0),
    Buffer("j", 1, 5, 6),
    Buffer("k", 1, 5, 6),
    Buffer("l", 2, 5, 5),
    Buffer("m", 1, 0, 0),
]


@st.composite
def buffer_lists(draw: st.DrawFn, most: int = 25, size: int = 5000) -> list[Buffer]:
    buffers = []
    for index in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 12))
        buffers.append(Buffer(f"b{index}", draw(st.integers(0, size)), first, first + draw(st.integers(0, 6))))
    return buffers


@settings(max_examples=60, deadline=None)
@given(buffer_lists(), st.sampled_from([1, 64, 128]))
def test_a_plan_is_valid_not_below_its_bound_and_not_worse_than_greedy(buffers: list[Buffer], alignment: int) -> None:
    plan = plan_placement(buffers, alignment)
    assert faults(buffers, plan.offsets, alignment, plan.peak) == []
    assert lower_bound(buffers, alignment) <= plan.bound <= plan.peak <= place(buffers, alignment).peak
    assert plan.gap >= 0


@settings(max_examples=40, deadline=None)
@given(buffer_lists(most=9, size=4))
def test_on_small_problems_the_plan_is_the_optimum_of_brute_force(buffers: list[Buffer]) -> None:
    plan = plan_placement(buffers, 1, effort=Effort.THOROUGH)
    assert plan.proof is not Proof.NONE
    assert plan.peak == max((smallest_peak(part) * part.unit for part in problems(buffers, 1)), default=0)


def test_a_peak_above_the_bound_is_proved_to_be_the_optimum() -> None:
    plan = plan_placement(ABOVE_ITS_BOUND, 1)
    assert lower_bound(ABOVE_ITS_BOUND, 1) == 8
    assert max(smallest_peak(part) for part in problems(ABOVE_ITS_BOUND, 1)) == 9
    assert (plan.peak, plan.bound, plan.proof, plan.gap) == (9, 9, Proof.SEARCH, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_buffers_cut_out_of_a_full_memory_are_packed_without_a_gap(seed: int) -> None:
    buffers = guillotine(seed, count=60, steps=40, capacity=1000)
    plan = plan_placement([Buffer(b.name, b.size * 128, b.first, b.last) for b in buffers], 128, effort=Effort.THOROUGH)
    assert (plan.peak, plan.proof) == (128_000, Proof.BOUND)


@pytest.mark.parametrize("seed", range(40))
def test_a_search_without_restarts_never_loses_a_packing_that_exists(seed: int) -> None:
    for part in problems(guillotine(seed, count=18, steps=9, capacity=30), 1):
        whole = Settings(steps=50_000, restart=50_000)
        assert search(part, 30 // part.unit, whole).outcome is Outcome.FOUND


def test_the_search_finds_what_greedy_and_hill_climb_do_not() -> None:
    buffers = guillotine(2, count=90, steps=60, capacity=1000)
    assert place(buffers, 1).peak > 1000
    plan = plan_placement(buffers, 1, 1000, effort=Effort.THOROUGH)
    assert (plan.peak, plan.method) == (1000, "exact search")
    assert faults(buffers, plan.offsets, 1, 1000) == []


def test_the_same_input_and_seed_give_the_same_plan() -> None:
    buffers = guillotine(4, count=90, steps=60, capacity=1000)
    assert plan_placement(buffers, 1, seed=3) == plan_placement(buffers, 1, seed=3)


def test_problems_that_share_no_step_are_planned_apart() -> None:
    early = guillotine(5, count=40, steps=30, capacity=1000)
    late = [Buffer(f"late {b.name}", b.size, b.first + 30, b.last + 30) for b in guillotine(6, 40, 30, 1000)]
    together = [*late, *early]
    for part in problems(together, 1):
        assert len({together[member].name.startswith("late") for member in part.members}) == 1
    assert plan_placement(together, 1, effort=Effort.THOROUGH).peak == 1000


def test_what_is_enough_is_not_searched_further() -> None:
    buffers = guillotine(2, count=90, steps=60, capacity=1000)
    plan = plan_placement(buffers, 1, 10_000, effort=Effort.THOROUGH)
    assert plan.peak <= 10_000


def test_a_clock_that_is_over_leaves_a_valid_plan() -> None:
    buffers = guillotine(2, count=90, steps=60, capacity=1000)
    plan = plan_placement(buffers, 1, effort=Effort.THOROUGH, budget_s=0.0)
    assert faults(buffers, plan.offsets, 1, plan.peak) == []
    assert plan.status == f"best found, gap {plan.peak / 1000 - 1:.2%}"


def test_the_printed_status_says_what_is_known() -> None:
    assert plan_placement([Buffer("a", 100, 0, 3)], 128).status == "optimal (meets the bound)"
    assert plan_placement(ABOVE_ITS_BOUND, 1).status == "optimal (proved by search)"
    assert Placement({}, 110, "greedy by size", 100).status == "best found, gap 10.00%"


def test_a_peak_in_the_bounds_last_alignment_unit_meets_the_bound() -> None:
    plan = plan_placement([Buffer("a", 100, 0, 3), Buffer("b", 300, 0, 3)], 128)
    assert plan.proof is Proof.BOUND


def test_nothing_to_place_is_a_plan_of_no_bytes() -> None:
    plan = plan_placement([], 128)
    assert (plan.offsets, plan.peak, plan.bound, plan.status) == ({}, 0, 0, "optimal (meets the bound)")
    assert plan_placement([Buffer("none", 0, 0, 5)], 128).peak == 0


def test_two_buffers_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        plan_placement([Buffer("a", 1, 0, 0), Buffer("a", 2, 1, 1)], 1)
