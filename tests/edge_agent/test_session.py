"""A running agent writes what its frames decide at once, not with the next talk to the platform."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edge_agent.agent import Agent
from edge_agent.session import Session
from edge_agent.slot_store import read_slots
from edge_agent.slots import SlotState
from tests.edge_agent.workshop import Workshop
from tests.support.platform_twin import PlatformTwin


def test_a_confirmation_is_on_disk_long_before_the_next_talk(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    record = workshop.state / "slots.json"
    with _playing(workshop.agent(), workshop, sync_s=600):
        _until(lambda: read_slots(record).a.state is SlotState.CONFIRMED)
        assert twin.requests["/releases/v1/state"] == 1, "and nobody looked at the platform for it"


def test_a_report_that_waits_for_its_answer_holds_up_no_kill_switch(workshop: Workshop, twin: PlatformTwin) -> None:
    answered, post, asked = threading.Event(), twin.post, list[str]()

    def slow(path: str, body: bytes, device: str) -> tuple[int, dict[str, str], bytes]:
        if path.endswith("/feedback"):
            asked.append(device)
            answered.wait(20)
        return post(path, body, device)

    twin.post = slow  # type: ignore[method-assign]  # a twin that is busy
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    with _playing(agent, workshop, sync_s=0.1, release=answered):
        _until(lambda: agent.playback.version == "2.0")
        twin.set_state(epoch=3, killed=True)
        _until(lambda: agent.killed)
        assert len(asked) == 1, "while the first report waits for its answer"
        assert not twin.batches
        answered.set()
        _until(lambda: bool(twin.batches))


@contextmanager
def _playing(agent: Agent, workshop: Workshop, sync_s: float, release: threading.Event | None = None) -> Iterator[None]:
    """The agent plays in a thread until this ends; `release` is set then, so that nothing it waits for is left."""
    session = Session(agent, workshop.state, fps=200, max_frames=0, sync_s=sync_s)
    running = threading.Thread(target=session.run)
    running.start()
    try:
        yield
    finally:
        if release is not None:
            release.set()
        session.stop.set()
        running.join(20)


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_end_during_a_long_rest_does_not_wait_for_it(workshop: Workshop, twin: PlatformTwin) -> None:
    session = Session(workshop.agent(), workshop.state, fps=0, max_frames=5, sync_s=600)
    began = time.monotonic()
    status = session.run()
    assert status["frames"] == 5
    assert time.monotonic() - began < 15
