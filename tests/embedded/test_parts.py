"""The supervisor's parts by themselves."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from embedded.child import Child, ChildSpec, end_leftovers
from embedded.limits import LIMITS
from embedded.state import PlatformInfo, StateFolder
from embedded.watch import Watch


def spec(code: str) -> ChildSpec:
    return ChildSpec("it", [sys.executable, "-c", code], {}, lambda: True)


def test_pauses_between_starts_double_up_to_a_bound(tmp_path: Path) -> None:
    child = Child(spec(""), tmp_path / "log", tmp_path)
    pauses = [child.put_off() for _ in range(8)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == LIMITS.longest_pause_s


def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    child = Child(spec(code), tmp_path / "log", tmp_path)
    child.start()
    while "on" not in child.log_tail():
        time.sleep(0.02)
    child.ask_to_stop()
    assert child.finish(time.monotonic() + 0.3) is False
    assert child.pid is None


def test_a_log_that_grew_too_long_is_emptied_and_goes_on(tmp_path: Path) -> None:
    child = Child(spec(""), tmp_path / "log", tmp_path)
    with child.log.open("ab") as log:
        log.truncate(LIMITS.log_bytes + 1)
        child.trim_log()
        log.write(b"on")
    assert child.log_tail() == "on"


def test_a_reused_pid_is_never_touched() -> None:
    import os

    assert end_leftovers({"it": {"pid": os.getpid(), "created": 1.0}}) == []


def test_ports_and_passwords_stay_between_runs(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    first = folder.plan(8080)
    folder.save(first)
    second = folder.plan(8081)
    assert second.redis_port == first.redis_port
    assert second.postgres_password == first.postgres_password
    assert second.base_url == "http://127.0.0.1:8081"


def test_a_file_of_a_newer_version_is_still_read(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.save(folder.plan(8080))
    folder.info_file.write_text(folder.info_file.read_text().replace("{", '{"later": 1,', 1))
    assert isinstance(folder.info(), PlatformInfo)


def test_the_watch_starts_a_dead_child_again(tmp_path: Path) -> None:
    said: list[str] = []
    watch = Watch(tmp_path, tmp_path, said.append, lambda: None)
    watch.begin()
    child = watch.add(spec("import time; time.sleep(60)"))
    child.kill()
    deadline = time.monotonic() + 10
    while not any("started again" in line for line in said) and time.monotonic() < deadline:
        time.sleep(0.05)
    watch.stop((("it",),))
    assert child.restarts == 1
