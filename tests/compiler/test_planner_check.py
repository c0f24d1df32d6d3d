"""The independent check of a placement sees every kind of planted fault."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compiler.memory import Buffer
from compiler.memory.check import faults
from compiler.memory.greedy import place
from tests.compiler.packings import guillotine

PAIR = [Buffer("a", 256, 0, 4), Buffer("b", 128, 4, 6)]


def test_a_valid_placement_has_no_faults() -> None:
    assert faults(PAIR, {"a": 0, "b": 256}, 128, 384) == []


def test_buffers_alive_at_different_steps_may_share_bytes() -> None:
    assert faults([Buffer("a", 256, 0, 3), Buffer("b", 128, 4, 6)], {"a": 0, "b": 0}, 128) == []


def test_one_shared_step_is_an_overlap_named_with_its_bytes() -> None:
    assert faults(PAIR, {"a": 0, "b": 128}, 128) == ["a and b share bytes 128 to 256 at step 4"]


def test_a_buffer_inside_another_is_seen_behind_a_third() -> None:
    buffers = [Buffer("long", 512, 0, 1), Buffer("short", 128, 0, 1), Buffer("inside", 128, 0, 1)]
    found = faults(buffers, {"long": 0, "short": 128, "inside": 256}, 128)
    assert found == [
        "long and short share bytes 128 to 256 at step 0",
        "long and inside share bytes 256 to 384 at step 0",
    ]


def test_alignment_capacity_begin_and_missing_offsets_are_checked() -> None:
    assert faults(PAIR, {"a": 0, "b": 300}, 128) == ["b begins at 300, which is no multiple of 128"]
    assert faults(PAIR, {"a": 0, "b": 256}, 128, 383) == ["b ends at 384, the memory has 383 bytes"]
    assert faults(PAIR, {"a": 0, "b": -128}, 128)[0] == "b begins at -128, before the memory"
    assert faults(PAIR, {"a": 0}, 128) == ["b has no offset"]


@given(st.integers(0, 50), st.data())
def test_a_buffer_moved_onto_another_one_alive_is_always_seen(seed: int, data: st.DataObject) -> None:
    buffers = guillotine(seed, count=20, steps=10, capacity=500)
    offsets = dict(place(buffers, 1).offsets)
    pairs = [(a, b) for a in buffers for b in buffers if a is not b and a.overlaps(b)]
    moved, onto = data.draw(st.sampled_from(pairs))
    shift = data.draw(st.integers(0, onto.size - 1))
    offsets[moved.name] = offsets[onto.name] + shift
    assert any(moved.name in fault and onto.name in fault for fault in faults(buffers, offsets, 1))
