"""Live ranges: followed from the stream, never two at once in the same bytes, with names that people know."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import compile_program
from compiler.measures.live_ranges import Kind, LiveRange, live_ranges
from compiler.measures.views import view_file
from compiler.timing import estimate
from contracts.npu import COMMAND, Op, OutputTensor, Profile, Program, ProgramWriter, Space, load_spec
from tests.compiler.bundles import WAYS, profile
from tests.compiler.host_nets import HOST
from tests.compiler.qdq_cases import EXACT, NEAR
from tests.compiler.qdq_nets import SHAPE
from tests.compiler.test_states import SIZE
from tests.support.models import recurrent_qdq

EVERY = [(way, index) for way in WAYS for index in (0, 1)]


def ranges(way: str, index: int = 0, space: Space = Space.SRAM) -> list[LiveRange]:
    return [entry for entry in profile(way, index).ranges if entry.space == space]


@pytest.mark.parametrize(("way", "index"), EVERY)
def test_no_two_ranges_hold_the_same_bytes_at_the_same_time(way: str, index: int) -> None:
    for one, other in itertools.combinations(profile(way, index).ranges, 2):
        if one.shares_bytes(other):
            assert one.end_ns <= other.begin_ns or other.end_ns <= one.begin_ns, (one, other)


@pytest.mark.parametrize(("way", "index"), EVERY)
def test_the_ranges_reach_exactly_the_peak(way: str, index: int) -> None:
    found = profile(way, index)
    peak = max(entry.offset + entry.size for entry in ranges(way, index))
    assert found.profile.sram_peak - 128 < peak <= found.profile.sram_peak


@pytest.mark.parametrize(("way", "index"), EVERY)
def test_every_range_is_used_and_lies_in_the_frame(way: str, index: int) -> None:
    end = profile(way, index).frame().estimate.total_ns
    for entry in profile(way, index).ranges:
        assert 0 <= entry.begin_ns <= entry.end_ns <= end * (1 + 1e-9)
        assert entry.readers or entry.kind == Kind.OUTPUT, entry


def test_a_planned_trunk_is_one_range_updated_in_place() -> None:
    (trunk,) = [entry for entry in ranges("whole", 1) if entry.in_place]
    assert trunk.label == "head … block2 → tail"
    assert trunk.kind == Kind.MAP


def test_middles_of_blocks_follow_each_other_in_the_same_bytes() -> None:
    middles = [entry for entry in ranges("whole", 1) if entry.label.startswith("inside block")]
    assert [entry.label for entry in sorted(middles, key=lambda e: e.begin_ns)] == [
        f"inside block{i}" for i in range(3)
    ]
    assert len({entry.offset for entry in middles}) == 1


def test_stripes_make_rings_and_rows_on_their_way() -> None:
    kinds = {entry.kind for entry in ranges("striped")}
    assert {Kind.RING, Kind.STAGING, Kind.WEIGHTS, Kind.SCALES} <= kinds
    labels = [entry.label for entry in ranges("striped") if entry.kind == Kind.STAGING]
    assert any(label.startswith("rows in, for head") for label in labels)
    assert any(label.startswith("rows out, from tail") for label in labels)


def test_resident_constants_live_for_the_whole_frame() -> None:
    (weights,) = [entry for entry in ranges("striped") if entry.kind == Kind.WEIGHTS]
    assert weights.resident
    assert (weights.begin_ns, weights.end_ns) == (0.0, profile("striped").frame().estimate.total_ns)


def test_streamed_constants_are_named_after_their_kernel() -> None:
    labels = {entry.label for entry in ranges("unplanned") if entry.kind == Kind.WEIGHTS}
    assert "weights of conv0" in labels


def test_maps_in_ddr_are_neither_input_nor_output() -> None:
    outside = ranges("unplanned", 0, Space.DDR)
    assert [entry.label for entry in outside if entry.kind == Kind.INPUT] == ["input frame"]
    assert [entry.label for entry in outside if entry.kind == Kind.OUTPUT] == ["output y"]
    assert {entry.kind for entry in outside} == {Kind.INPUT, Kind.OUTPUT, Kind.MAP}
    assert profile("unplanned").spilled > 0
    assert profile("striped").spilled == 0


WINDOWED = ("concat rows", "concat cols", "concat channels", "split channels", "split cols", "softmax over rows")
OTHERS = {name: {**EXACT, **NEAR, **HOST}[name] for name in (*WINDOWED, *HOST) if name in {**EXACT, **NEAR, **HOST}}


@pytest.mark.parametrize("name", OTHERS)
def test_windows_and_host_operators_keep_to_the_same_rules(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.npu").write_bytes(compile_program(OTHERS[name](), "npu-4t", [SHAPE])[0])
    found = view_file(tmp_path / "net.npu").programs[0].profiles[0].ranges
    for one, other in itertools.combinations(found, 2):
        if one.shares_bytes(other):
            assert one.end_ns <= other.begin_ns or other.end_ns <= one.begin_ns, (one, other)
    assert [entry.label for entry in found if not entry.readers and entry.kind != Kind.OUTPUT] == []


def stripes(rows: int, kernel: int, source: tuple[Space, int], target: tuple[Space, int]) -> list[np.ndarray]:
    """A kernel that copies an 8-row map in stripes."""
    commands = []
    for number in range(8 // rows):
        command = np.zeros((), COMMAND)
        command["op"], command["kernel"] = Op.SHUFFLE, kernel
        for key, (space, offset) in (("src", source), ("dst", target)):
            region = command[key]
            region["space"], region["offset"] = space, offset
            region["rows"], region["cols"], region["channels"] = rows, 8, 2
            region["row_stride"], region["pixel_stride"] = 16, 2
            region["ring_rows"], region["ring_first"] = 8, number * rows
        commands.append(command)
    return commands


def test_a_ring_that_another_kernel_fills_anew_is_another_range() -> None:
    ring, frame, result = (Space.SRAM, 0), (Space.DDR, 0), (Space.DDR, 128)
    commands = [
        *stripes(4, 0, source=frame, target=ring),
        *stripes(4, 1, source=ring, target=(Space.DDR, 256)),
        *stripes(4, 2, source=(Space.DDR, 256), target=ring),
        *stripes(4, 3, source=ring, target=result),
        np.zeros((), COMMAND),
    ]
    output = OutputTensor("y", 8, 8, 2, 1.0, 0, 128)
    entry = Profile("8x8", 8, 8, 2, 1.0, 0, 0, (output,), 0, 384, 0, 128)
    writer = ProgramWriter("npu-4t", bytes(16))
    writer.add_profile(entry, np.array(commands, COMMAND))
    program = Program.open(writer.to_bytes(["a", "b", "c", "d"], b"", b""))
    spec = load_spec("npu-4t")
    events = estimate(program.commands(0), program.names, spec, spec.array_model("ideal")).events
    found = [entry for entry in live_ranges(program, 0, events) if entry.space == Space.SRAM]
    assert [(entry.label, entry.kind) for entry in found] == [("a → b", Kind.MAP), ("c → d", Kind.MAP)]
    assert found[0].end_ns <= found[1].begin_ns


def test_states_live_on_and_are_not_spilled(tmp_path: Path) -> None:
    (tmp_path / "net.npu").write_bytes(compile_program(recurrent_qdq(), "npu-4t", [SIZE])[0])
    found = view_file(tmp_path / "net.npu").programs[0].profiles[0]
    states = {entry.label: entry for entry in found.ranges if entry.kind == Kind.STATE}
    assert set(states) == {"state history", "next history"}
    assert (states["state history"].begin_ns, states["state history"].end_ns) == (0, found.frame().estimate.total_ns)
    assert found.spilled == 0
