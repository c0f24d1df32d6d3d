"""The runner serves every frame, whatever its backends do, and counts what happened."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.bundle import Bundle
from edge_agent.runtime import bicubic
from edge_agent.runtime.backend import FrameUnfit, Observation, Span, Upscaled
from edge_agent.runtime.healing import Choice, State
from edge_agent.runtime.runner import Runner
from edge_agent.runtime.trace import FrameTrace, TraceLimits, TraceRing

Pixels = NDArray[np.uint8]
FRAME = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)


@dataclass
class Hands:
    """A clock moved by hand."""

    instant: float = 1000.0

    def now(self) -> float:
        return self.instant

    def sleep(self, seconds: float) -> None:
        self.instant += seconds


@dataclass
class Twin:
    """A backend that doubles by repeating, or fails while `broken`."""

    name: str
    broken: bool = False
    ms: float | None = 1.0
    calls: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=lambda: [(6, 8)])

    def load(self, bundle: Bundle, device_class: str) -> None:
        raise NotImplementedError

    def upscale(self, frame: Pixels) -> Upscaled:
        self._call(frame)
        return Upscaled(frame.repeat(2, 0).repeat(2, 1), self.ms, lambda: [Span("head", 0.0, 0.5)])

    def observe(self, frame: Pixels) -> Observation:
        self._call(frame)
        return Observation(np.zeros((1, 1, 16), np.uint8), np.zeros(256, np.float32), self.ms)

    def _call(self, frame: Pixels) -> None:
        self.calls += 1
        if frame.shape != (6, 8, 3):
            raise FrameUnfit("wrong size")
        if self.broken:
            raise RuntimeError("no answer")


def make(broken: bool = False, cpu_broken: bool = False) -> tuple[Runner, Twin, Twin, Hands]:
    npu, cpu, clock = Twin("npu", broken), Twin("cpu", cpu_broken, None), Hands()
    return Runner(npu, cpu, clock, budget_ms=10.0), npu, cpu, clock


def test_a_healthy_frame_is_served_by_the_primary() -> None:
    runner, _, cpu, _ = make()
    assert runner.upscale(FRAME).choice is Choice.PRIMARY
    assert cpu.calls == 0


def test_a_failing_primary_costs_no_frame_and_is_left_alone_after_five_errors() -> None:
    runner, npu, _, clock = make(broken=True)
    for _ in range(20):
        served = runner.upscale(FRAME)
        assert served.choice is Choice.FALLBACK
        assert served.result is not None
        clock.sleep(1 / 30)
    assert (npu.calls, runner.state) == (5, State.DEGRADED)
    assert (runner.counts.frames, runner.counts.errors, runner.counts.on_cpu) == (20, 5, 20)


def test_the_primary_comes_back_after_a_probe() -> None:
    runner, npu, _, clock = make(broken=True)
    for _ in range(10):
        runner.upscale(FRAME)
    npu.broken = False
    clock.sleep(1800)
    assert runner.upscale(FRAME).choice is Choice.PRIMARY
    assert runner.state is State.NORMAL


def test_both_backends_dead_still_give_a_picture() -> None:
    runner, npu, cpu, _ = make(broken=True, cpu_broken=True)
    for _ in range(30):
        served = runner.upscale(FRAME)
        assert served.choice is Choice.LAST_RESORT
        assert served.result is not None
        assert served.result.image.shape == (12, 16, 3)
    assert runner.state is State.DISABLED
    assert npu.calls + cpu.calls <= 15
    assert runner.counts.plain == 30


def test_an_observation_that_nobody_can_make_is_absent_not_an_error() -> None:
    runner, _, _, _ = make(broken=True, cpu_broken=True)
    assert runner.observe(FRAME).result is None
    assert runner.counts.unobserved == 1


def test_an_unfit_frame_is_the_callers_error_and_counts_nothing() -> None:
    runner, _, _, _ = make()
    with pytest.raises(FrameUnfit):
        runner.upscale(FRAME[:5])
    assert runner.counts.errors == 0
    assert runner.state is State.NORMAL


def test_late_frames_are_counted_and_traced() -> None:
    runner, npu, _, _ = make()
    for ms in (1.0, 11.0, 9.0, 12.0):
        npu.ms = ms
        runner.upscale(FRAME)
    assert runner.counts.late == 2
    late = [frame.number for frame in runner.trace.frames() if "late" in frame.anomalies]
    assert late == [1, 3]


def test_the_trace_stays_bounded_and_keeps_what_was_odd() -> None:
    ring = TraceRing(TraceLimits(ring=10, kept=5, sample_every=100))
    for number in range(1000):
        odd = ("late",) if number == 500 else ()
        ring.record(FrameTrace(number, float(number), "upscale", "npu", 1.0, anomalies=odd))
    numbers = [frame.number for frame in ring.frames()]
    assert numbers == [500, 600, 700, 800, 900, *range(990, 1000)]


def test_the_trace_exports_as_chrome_events() -> None:
    runner, _, _, _ = make()
    runner.upscale(FRAME)
    events = json.loads(runner.trace.chrome_json())["traceEvents"]
    assert [event["name"] for event in events] == ["process_name", "upscale", "head"]
    assert all({"ts", "dur", "pid", "tid"} <= set(event) for event in events[1:])


def test_spans_that_run_at_one_time_have_tracks_of_their_own() -> None:
    spans = (Span("head", 0.0, 6.0), Span("block", 1.0, 6.0), Span("tail", 6.0, 4.0), Span("last", 10.0, 1.0))
    ring = TraceRing()
    ring.record(FrameTrace(0, 0.0, "upscale", "npu", 11.0, spans))
    events = json.loads(ring.chrome_json())["traceEvents"]
    assert {event["name"]: event["tid"] for event in events[2:]} == {"head": 2, "block": 3, "tail": 2, "last": 2}


def test_plain_doubling_keeps_flat_areas_and_stays_in_range() -> None:
    flat = np.full((5, 7, 3), 93, np.uint8)
    assert np.array_equal(bicubic.double(flat), np.full((10, 14, 3), 93, np.uint8))
    edges = np.zeros((6, 6, 1), np.uint8)
    edges[:, 3:] = 255
    assert bicubic.double(edges).shape == (12, 12, 1)
    ramp = np.broadcast_to(np.arange(0, 80, 4, dtype=np.uint8)[:, None, None], (20, 6, 1))
    inner = bicubic.double(ramp)[4:-4, 0, 0].astype(int)
    assert np.array_equal(np.diff(inner), np.full(len(inner) - 1, 2))
