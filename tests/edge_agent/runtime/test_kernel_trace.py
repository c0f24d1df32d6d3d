"""The kernel trace is a valid Chrome trace that says what the timing model says."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from contracts.npu.program import Program
from edge_agent.runtime.npu import ClimateModel, NpuDevice
from edge_agent.runtime.npu.climate import Conditions
from edge_agent.runtime.npu.commands import decode_stream
from edge_agent.runtime.npu.kernel_sets import KernelSet, KernelSetLimits, switch_due
from edge_agent.runtime.npu.kernel_trace import COMPUTE, DMA, LAUNCH, TracedFrame, TraceTooLong, perfetto_json, traced
from edge_agent.runtime.npu.limits import NpuLimits
from edge_agent.runtime.npu.occupancy import lives, occupancy
from edge_agent.runtime.npu.tracing import TraceOptions, trace_program
from tests.edge_agent.runtime.assembler import residual_net
from tests.edge_agent.runtime.striped import striped_net

PHASES = {
    "X": {"ts", "dur", "tid"},
    "C": {"ts", "args"},
    "M": {"args"},
    "i": {"ts", "s"},
    "s": {"id"},
    "f": {"id", "bp"},
}


def frames(count: int = 2, staged: bool = True, climate: ClimateModel | None = None) -> list[TracedFrame]:
    net = striped_net(rows=2, staged=staged)
    device = NpuDevice("npu-4t", climate=climate)
    loaded = device.load(Program.open(net.program))
    image = np.zeros(net.size, np.uint8)
    result = []
    for _ in range(count):
        run = device.infer(loaded, image)
        result.append(traced(device, loaded, 0, run))
        device.idle(0.01)
    return result


def events(found: list[TracedFrame]) -> list[dict[str, Any]]:
    text = json.loads(perfetto_json(found))
    assert set(text) == {"traceEvents", "displayTimeUnit"}
    return list(text["traceEvents"])


def test_every_event_has_the_fields_of_its_phase() -> None:
    for event in events(frames(climate=ClimateModel())):
        assert PHASES[event["ph"]] <= set(event)
        assert isinstance(event["name"], str)
        assert event["pid"] == 1
        if event["ph"] in "XCisf":
            assert event["ts"] >= 0.0
        if event["ph"] == "X":
            assert event["dur"] >= 0.0
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())


def test_tracks_have_names_and_their_slices_never_overlap() -> None:
    found = events(frames(3))
    named = {event["tid"] for event in found if event["name"] == "thread_name"}
    tracks: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(tracks) == named == {COMPUTE, DMA, LAUNCH}
    together = tracks[COMPUTE] + tracks[LAUNCH]  # a launch holds the compute queue up
    for slices in (*tracks.values(), together):
        ordered = sorted(slices)
        assert all(one[1] <= two[0] + 1e-6 for one, two in pairwise(ordered))


def test_the_slices_of_a_frame_end_when_the_frame_does() -> None:
    (frame,) = frames(1)
    last = max(event["ts"] + event["dur"] for event in events([frame]) if event["ph"] == "X")
    assert last / 1e3 == pytest.approx(max(time.end_ns for time in frame.timeline) * frame.stretch / 1e6)


def test_launches_and_dispatches_are_all_there() -> None:
    (frame,) = frames(1)
    names = [event["name"] for event in events([frame]) if event["ph"] == "X" and event["tid"] == LAUNCH]
    assert sum(name.startswith("launch") for name in names) == len(frame.kernels) - 1  # the prologue is none
    assert sum(name.startswith("dispatch") for name in names) == sum(time.command.dispatch for time in frame.timeline)


def test_arrows_join_a_command_to_what_it_waits_for() -> None:
    found = events(frames(2))
    starts, ends = ({e["id"]: e for e in found if e["ph"] == phase} for phase in "sf")
    assert starts.keys() == ends.keys()
    assert starts
    assert all(starts[key]["ts"] <= ends[key]["ts"] for key in starts)
    assert all(starts[key]["tid"] != ends[key]["tid"] for key in starts)


def test_heat_charge_clock_and_a_change_of_kernels_are_shown() -> None:
    (frame,) = frames(1, climate=ClimateModel(ambient_c=50.0))
    switch = switch_due(KernelSet.BIG, Conditions(0.0, 90.0, 1.0, 0), KernelSetLimits())
    shown = TracedFrame(**{**vars(frame), "switch": switch})
    found = events([shown])
    counters = {event["name"]: event["args"] for event in found if event["ph"] == "C"}
    assert counters["temperature"]["C"] >= 50.0
    assert counters["clock"]["MHz"] == 1000.0
    assert 99.0 < counters["charge"]["percent"] <= 100.0
    (mark,) = [event for event in found if event["ph"] == "i"]
    assert mark["name"] == "model -> model-little"
    assert mark["args"]["reason"] == "90.0 C"


def test_a_trace_of_too_many_commands_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = frames(2)
    from edge_agent.runtime.npu import kernel_trace

    monkeypatch.setattr(kernel_trace, "LIMITS", NpuLimits(traced_commands=10))
    with pytest.raises(TraceTooLong, match="trace fewer frames"):
        perfetto_json(found)


@pytest.mark.parametrize("make", [residual_net, striped_net])
def test_the_memory_held_never_passes_the_programs_peak(make: Any) -> None:
    program = Program.open(make(blocks=3).program)
    commands, cut = decode_stream(program.commands(0)), program.profiles[0].n_prologue
    held = occupancy(commands[:cut], commands[cut:])
    assert len(held) == len(commands) - cut
    assert max(held) <= program.profiles[0].sram_peak
    assert min(held) >= sum(command.target.extent for command in commands[:cut])


def test_a_map_is_held_from_its_writer_to_its_last_reader() -> None:
    program = Program.open(residual_net(blocks=1).program)
    cut = program.profiles[0].n_prologue
    frame = decode_stream(program.commands(0))[cut:]
    offset = {name: command.target.offset for name, command in zip(("trunk", "middle"), frame, strict=False)}
    held = {place[0]: (first, last) for first, last, place in lives(frame) if place[0] in offset.values()}
    assert held == {offset["trunk"]: (0, 3), offset["middle"]: (1, 2)}


def test_a_program_is_traced_in_one_call_frame_after_frame() -> None:
    program = Program.open(striped_net(rows=2).program)
    options = TraceOptions(frames=3, frames_per_second=50.0, climate=ClimateModel())
    found = json.loads(trace_program(program, options))["traceEvents"]
    starts = [event["ts"] for event in found if event["name"] == "clock"]
    assert starts == pytest.approx([0.0, 20_000.0, 40_000.0])
    assert found[0]["args"]["name"] == "npu-4t (u85-like)"


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(KeyError, match="no profile"):
        trace_program(Program.open(striped_net().program), TraceOptions(profile="1x1"))
