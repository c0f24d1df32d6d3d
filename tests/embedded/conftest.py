"""One embedded platform for this folder's tests, without the flows (they have tests of their own)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.environment import ROOT
from embedded.ports import free_port
from embedded.supervisor import Platform
from tests.support.servers import server_folder


@pytest.fixture(scope="session")
def state() -> Iterator[Path]:
    with server_folder("up") as folder:
        yield folder / "state"


@pytest.fixture(scope="session")
def said() -> list[str]:
    """What the platform told its listener."""
    return []


@pytest.fixture(scope="session")
def running(state: Path, said: list[str]) -> Iterator[Platform]:
    with Platform(state, free_port(), without=["flows"], say=said.append) as platform:
        yield platform


def edgeloop(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    command = [sys.executable, "-m", "edgeloop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=ROOT)
