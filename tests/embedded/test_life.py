"""Start, stop and start again: state stays, nothing is left behind. Only the parts that hold state run here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from embedded import cli
from embedded.child import ChildSpec
from embedded.cli import Asked
from embedded.environment import ROOT
from embedded.errors import ChildFailed, EmbeddedError
from embedded.plan import OPTIONAL, answers
from embedded.ports import free_port
from embedded.state import StateFolder
from embedded.supervisor import Platform
from embedded.watch import Watch

SMALL = sorted(OPTIONAL)


class Up:
    """`edgeloop up` as a process of its own."""

    def __init__(self, state: Path, port: int) -> None:
        left_out = [word for name in SMALL for word in ("--without", name)]
        command = [sys.executable, "-m", "edgeloop", "up", "--state", str(state), "--port", str(port), *left_out]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.folder = StateFolder(state)
        self.port = port

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 60
        while not answers(f"http://127.0.0.1:{self.port}/readyz"):
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def pids(self) -> list[int]:
        return [child["pid"] for child in self.folder.children()["children"].values()]


@pytest.fixture
def start(state_folder: Path) -> Iterator[Callable[[], Up]]:
    """Starts `edgeloop up` on the test's one state folder."""
    started: list[Up] = []

    def begin() -> Up:
        started.append(Up(state_folder, free_port()))
        started[-1].wait_ready()
        return started[-1]

    yield begin
    for up in started:
        if up.process.poll() is None:
            up.process.terminate()
        up.process.communicate(timeout=40)


def test_a_signal_stops_everything_in_order(start: Callable[[], Up]) -> None:
    up = start()
    pids = up.pids()
    up.process.send_signal(signal.SIGTERM)
    _, said = up.process.communicate(timeout=40)
    assert up.process.returncode == 0, said
    assert said.index("api stopped") < said.index("redis stopped") < said.index("postgres stopped")
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_what_a_killed_supervisor_left_is_ended_and_the_state_goes_on(start: Callable[[], Up]) -> None:
    first = start()
    pids, old = first.pids(), first.folder.info()
    first.process.kill()
    first.process.wait()
    second = start()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    new = second.folder.info()
    assert old is not None
    assert new is not None
    assert (new.operator_token, new.postgres_password) == (old.operator_token, old.postgres_password)
    second.process.send_signal(signal.SIGINT)
    _, said = second.process.communicate(timeout=40)
    assert second.process.returncode == 0
    assert "ended what a killed platform left behind: api, postgres, redis" in " ".join(said.split())


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedError, match="choose --state"):
        Platform(tmp_path / "file" / "state", free_port()).start()


def test_a_part_that_does_not_exist_cannot_be_left_out(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="only beat"):
        Platform(tmp_path, free_port(), without=["postgres"])


def test_a_child_that_cannot_start_ends_the_attempt_with_its_log_and_leaves_nothing(state_folder: Path) -> None:
    broken = {"EDGELOOP_LOG_LEVEL": "NONSENSE"}
    platform = Platform(state_folder, free_port(), without=SMALL, environment=broken)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with pytest.raises(ChildFailed, match="log_level"):
        platform.start()
    assert platform.children == {}
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


class Swallows:
    """An interrupt that comes while this is finalised is reported only, and the program goes on."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self._number)
        time.sleep(0.01)


@pytest.fixture
def handlers() -> Iterator[None]:
    """The test may set signal handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_finaliser_swallows_still_ends_the_platform(number: signal.Signals) -> None:
    asked = Asked()
    one = Swallows(number)
    del one
    asked.wait()


@pytest.mark.usefixtures("handlers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_whose_interrupt_was_swallowed_is_given_up_in_order(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start_one_child(platform: Platform) -> None:
        watch = platform._watch = Watch(tmp_path, tmp_path, platform.say, lambda: None, platform._asked)
        watch.begin()
        watch.add(ChildSpec("redis", [sys.executable, "-c", "import time; time.sleep(300)"], {}, lambda: False))
        one = Swallows(number)
        del one
        watch.wait_ready("redis")

    monkeypatch.setattr(Platform, "_start", start_one_child)
    cli.up(tmp_path / "state", free_port())
    said = capsys.readouterr().err
    assert said.index("redis stopped") < said.index("\nstopped")
    assert "edgeloop up:" not in said
