"""The trusted environment as a process: keys stay inside, and its death costs one answer at most."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from edge_agent.tee import TeeRefused, TeeUnavailable, Why
from edge_agent.tee.client import TeeProcess
from edge_agent.tee.wire import MAGIC, ProtocolError, receive, send
from tests.support.agent_twin import make_bundle
from tests.support.sealing_twin import CLASSES, Sealer


@pytest.fixture
def tee(tmp_path: Path) -> Iterator[TeeProcess]:
    made = TeeProcess(tmp_path / "tee", CLASSES)
    yield made
    made.close()


def test_a_bundle_goes_through_the_process_and_comes_back_in_pages_nobody_can_write(
    tee: TeeProcess, tmp_path: Path
) -> None:
    bundle, sealer = make_bundle(tmp_path, "2.0"), Sealer()
    path, sealed = sealer.bundle(bundle.data, bundle.digest, 1)
    stored = tee.admit(sealed, sealer.envelope(path, tee.public().sealing) or b"", "npu-4t")
    pages = tee.open(stored)
    assert bytes(pages) == bundle.data
    assert pages.readonly
    assert len(tee.sign(b"x")) == 64
    assert tee.raise_floor(2) == 2
    with pytest.raises(TeeRefused) as caught:
        tee.open(stored)
    assert caught.value.why is Why.OLD_EPOCH
    assert bytes(pages) == bundle.data
    assert tee.starts == 1


def test_a_killed_process_is_started_again_and_nothing_is_lost(tee: TeeProcess) -> None:
    before = tee.public()
    tee._public = None
    assert tee.process_id is not None
    os.kill(tee.process_id, signal.SIGKILL)
    assert tee.public() == before
    assert tee.starts == 2


def test_a_hanging_process_is_ended_in_time_and_asked_ever_more_rarely(tmp_path: Path) -> None:
    clock = [0.0]

    def hangs(descriptor: int, folder: Path, classes: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(600)"]

    tee = TeeProcess(tmp_path / "tee", CLASSES, hangs, patience_s=0.3, monotonic=lambda: clock[0])
    with pytest.raises(TeeUnavailable):
        tee.public()
    assert tee.starts == 2
    began = time.monotonic()
    with pytest.raises(TeeUnavailable, match="a moment ago"):
        tee.public()
    assert time.monotonic() - began < 0.2
    assert tee.starts == 2
    clock[0] = 5.0
    with pytest.raises(TeeUnavailable):
        tee.public()
    assert tee.starts == 4
    assert tee.process_id is None


def test_a_process_that_talks_nonsense_is_no_answer(tmp_path: Path) -> None:
    def babbles(descriptor: int, folder: Path, classes: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", f"import os; os.write({descriptor}, b'x' * 100)"]

    with pytest.raises(TeeUnavailable):
        TeeProcess(tmp_path / "tee", CLASSES, babbles).public()


def test_the_protocol_is_bounded() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(MAGIC + bytes([2, 1]) + (2**31).to_bytes(4, "little"))
        with pytest.raises(ProtocolError, match="more than"):
            receive(other)
        one.sendall(MAGIC + bytes([2, 200]))
        with pytest.raises(ProtocolError):
            receive(other)


def test_unknown_questions_are_refused_and_the_next_one_is_answered(tee: TeeProcess) -> None:
    tee.public()
    assert tee._socket is not None
    for word, parts in ((99, []), (2, [b"x"]), (3, [b"not sealed"]), (4, [b"\xff" * 9])):
        send(tee._socket, word, parts)
        answer, _, descriptor = receive(tee._socket)
        assert answer != 0
        assert descriptor == -1
    assert len(tee.sign(b"still there")) == 64
