"""The frame loop's interpreter: settings hold inside and are given back; a change of bundle makes no message."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from edge_agent.observers.health import HealthWindow
from edge_agent.outbox import Outbox
from edge_agent.session import Session
from edge_agent.steady import SWITCH_S, steady
from tests.edge_agent.workshop import Workshop, play
from tests.support.platform_twin import PlatformTwin


def fail_inside(frozen: int) -> None:
    with steady():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert gc.get_freeze_count() > frozen
        raise ZeroDivisionError


def test_settings_hold_inside_and_are_given_back_after_an_error() -> None:
    before, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError):
        fail_inside(frozen)
    assert sys.getswitchinterval() == pytest.approx(before)
    assert gc.get_freeze_count() == 0


def test_a_frame_makes_no_message_when_bundles_change(
    workshop: Workshop, twin: PlatformTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of the bundle that is left costs a quantile and an encoding: the business of another thread."""
    made: list[str] = []
    report, put = HealthWindow.report, Outbox.put
    monkeypatch.setattr(HealthWindow, "report", lambda *a: made.append(threading.current_thread().name) or report(*a))
    monkeypatch.setattr(Outbox, "put", lambda *a: made.append(threading.current_thread().name) or put(*a))
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    talking = threading.Thread(target=agent.sync, name="talk")
    play(agent, 3)
    talking.start()
    talking.join()
    play(agent, 12)
    assert agent.playback.version == "2.0"
    assert not agent.on_trial
    assert "MainThread" not in made
    agent.settle()
    assert made.count("MainThread") >= 4, "two windows, each made and stored, and the notes of the trial"


def test_a_session_is_composed_before_it_is_steady(workshop: Workshop) -> None:
    session = Session(workshop.agent(), workshop.state, fps=0, max_frames=3, sync_s=600)
    with steady():
        assert session.run()["frames"] == 3
