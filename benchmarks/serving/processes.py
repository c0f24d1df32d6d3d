"""What every bench with servers of its own needs: variables and migrations, waiting for a server, ending a process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from alembic import command
from alembic.config import Config

from services.kit.database import engine
from services.kit.settings import Settings, settings

ROOT = Path(__file__).resolve().parents[2]
START_S, END_S = 60.0, 15.0


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """The variables for this process and its children, and its settings read from them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    settings.cache_clear()
    try:
        yield
    finally:
        engine().dispose()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
        settings.cache_clear()


def migrate() -> None:
    """The database of `settings()` as the newest migration has it."""
    configuration = Config(str(ROOT / "alembic.ini"))
    with engine(Settings()).connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until `url` answers 200. Raises RuntimeError with the end of the log when the process ends or takes too long."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"a server of the bench did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then end it."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
