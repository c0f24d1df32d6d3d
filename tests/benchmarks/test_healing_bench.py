"""The bench of healing: its call is a call, its judge knows the specified path, and what it cuts short still holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.healing import call_figures, cost_figures
from benchmarks.mending.call import SPECIFIED, Call, as_specified, hold
from benchmarks.mending.flowing import flow_figures
from benchmarks.mending.seed_bundle import seed_bundle
from benchmarks.mending.tracing import Cost, made_cost


def path(back: float = 1860.12, end: float = 4000.16, again: float = 2200.16) -> list[tuple[float, str, str]]:
    times = (60.12, back, again, 2200.16, end)
    return [(at, before, after) for at, (before, after) in zip(times, SPECIFIED, strict=True)]


def test_the_specified_path_is_recognised_and_any_other_is_not() -> None:
    assert as_specified(path())
    assert not as_specified(path(back=1850.0)), "a probe before its time"
    assert not as_specified(path(end=4002.0)), "a probe that came late"
    assert not as_specified(path(again=2000.12)), "four hangs must not open the breaker"
    assert not as_specified(path()[:-1])
    assert not as_specified([*path()[:3], *reversed(path()[3:])])


def test_a_frame_that_is_not_shown_is_lost_and_so_is_one_of_the_wrong_shape() -> None:
    call = Call(frames=100, shown=99, wrong=1, raised=1, path=path())
    figures = {figure.id: figure for figure in call_figures(call)}
    assert figures["call.frames_lost"].value == 3
    assert not figures["call.frames_lost"].ok
    assert figures["call.path"].ok
    assert figures["call.recovery"].ok


def test_a_call_that_never_came_back_is_not_ok() -> None:
    figures = {figure.id: figure for figure in call_figures(Call(frames=1, shown=1, path=path()[:1]))}
    assert not figures["call.path"].ok
    assert not figures["call.recovery"].ok


@pytest.mark.slow
def test_the_first_two_minutes_lose_no_frame_and_open_the_breaker_at_the_fifth_error(tmp_path: Path) -> None:
    call = hold(tmp_path / "device", seed_bundle(tmp_path / "seed.elb"), seconds=70)
    assert call.lost == 0
    assert call.frames == 70 * 25
    assert call.injected["npu"] == 5
    assert [(before, after) for _, before, after in call.path] == [("normal", "degraded")]
    assert call.on_cpu > 200


def test_the_cost_of_a_trace_is_measured_in_pairs() -> None:
    cost = made_cost(200)
    assert cost.frames == 200
    (median, *_) = cost_figures("made", Cost(51.0, 60.0, 52.0, 700.0, 10))
    assert not median.ok


def test_the_conveyor_is_held_against_its_slowest_stage() -> None:
    figures = {figure.id: figure for figure in flow_figures()}
    assert figures["flow.in_order"].ok
    assert figures["flow.period_to_slowest_stage"].reach.startswith("<= 1.1")
    assert {"flow.gain", "flow.trace.median"} <= figures.keys()
