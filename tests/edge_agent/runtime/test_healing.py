"""The healing machine: five errors open the breaker, a probe closes it, and no frame is ever without a
server.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.runtime.healing import (
    TABLE,
    Choice,
    Event,
    Healing,
    HealingLimits,
    State,
    after,
    plan,
)

LIMITS = HealingLimits()


def fail(healing: Healing, times: int, start: float = 0.0, step: float = 1.0) -> Healing:
    for index in range(times):
        healing = after(healing, Event.PRIMARY_FAILED, start + index * step, LIMITS)
    return healing


def test_four_errors_leave_it_normal_and_the_fifth_opens_the_breaker() -> None:
    assert fail(Healing(), 4).state is State.NORMAL
    broken = fail(Healing(), 5)
    assert broken.state is State.DEGRADED
    assert plan(broken, 5.0) == (Choice.FALLBACK, Choice.LAST_RESORT)


def test_errors_far_apart_never_open_the_breaker() -> None:
    assert fail(Healing(), 100, step=LIMITS.window_s / 4).state is State.NORMAL


def test_a_failed_frame_is_served_by_the_fallback_at_once() -> None:
    assert plan(Healing(), 0.0)[:2] == (Choice.PRIMARY, Choice.FALLBACK)


def test_the_primary_is_probed_after_thirty_minutes_and_success_heals() -> None:
    broken = fail(Healing(), 5)
    assert plan(broken, 4.0 + 1799)[0] is Choice.FALLBACK
    assert plan(broken, 4.0 + 1800)[0] is Choice.PRIMARY
    assert after(broken, Event.PRIMARY_OK, 1804.0, LIMITS) == Healing()


def test_a_failed_probe_waits_another_thirty_minutes() -> None:
    broken = after(fail(Healing(), 5), Event.PRIMARY_FAILED, 1804.0, LIMITS)
    assert broken.state is State.DEGRADED
    assert plan(broken, 1805.0)[0] is Choice.FALLBACK
    assert plan(broken, 1804.0 + 1800)[0] is Choice.PRIMARY


def test_a_fallback_that_fails_too_disables_and_either_success_leads_back() -> None:
    healing = fail(Healing(), 5)
    for index in range(5):
        healing = after(healing, Event.FALLBACK_FAILED, 10.0 + index, LIMITS)
    assert healing.state is State.DISABLED
    assert plan(healing, 20.0) == (Choice.LAST_RESORT,)
    assert after(healing, Event.FALLBACK_OK, 2000.0, LIMITS).state is State.DEGRADED
    assert after(healing, Event.PRIMARY_OK, 2000.0, LIMITS).state is State.NORMAL


def test_the_table_is_whole() -> None:
    assert set(TABLE) == {(state, event) for state in State for event in Event}


steps = st.lists(st.tuples(st.sampled_from(Event), st.floats(0, 4000)), max_size=80)


@given(steps)
def test_whatever_happens_no_frame_is_without_a_server(history: list[tuple[Event, float]]) -> None:
    healing, now = Healing(), 0.0
    for event, wait in history:
        now += wait
        assert plan(healing, now)[-1] is Choice.LAST_RESORT
        healing = after(healing, event, now, LIMITS)
        assert len(healing.primary_errors) < LIMITS.errors
        assert len(healing.fallback_errors) < LIMITS.errors
        assert (healing.state is State.NORMAL) == (healing.probe_at is None)
        if event is Event.PRIMARY_OK:
            assert healing.state is State.NORMAL


@given(st.lists(st.floats(0.1, 400), min_size=1, max_size=100))
def test_a_dead_primary_is_probed_at_most_once_an_interval(waits: list[float]) -> None:
    healing, now, last = fail(Healing(), 5), 4.0, 4.0
    for wait in waits:
        now += wait
        if plan(healing, now)[0] is Choice.PRIMARY:
            assert now - last >= LIMITS.probe_s
            last = now
            healing = after(healing, Event.PRIMARY_FAILED, now, LIMITS)
        healing = after(healing, Event.FALLBACK_OK, now, LIMITS)


@pytest.mark.parametrize("back", [-1e6, -1.0])
def test_a_clock_that_steps_back_opens_nothing(back: float) -> None:
    healing = fail(Healing(), 4, start=1000.0)
    assert after(healing, Event.PRIMARY_FAILED, 1000.0 + back, LIMITS).state is State.NORMAL
