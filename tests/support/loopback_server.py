"""MLflow's and Prefect's real servers on loopback, to be killed and started again in the middle of something."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

from embedded.environment import QUIET

_START_S = 180.0


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class LoopbackServer:
    """A server process of its own session on a fixed port; `kill` is SIGKILL for the whole group."""

    def __init__(self, command: list[str], health: str, variables: dict[str, str]) -> None:
        self._command, self._health, self._variables = command, health, variables
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers."""
        self._child = subprocess.Popen(
            self._command, env={**os.environ, **QUIET, **self._variables}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                if httpx.get(self._health, timeout=2.0, trust_env=False).is_success:
                    return
            except httpx.HTTPError:
                pass
            if self._child.poll() is not None:
                raise RuntimeError(f"{self._command[2]} ended with {self._child.returncode}")
            time.sleep(0.2)
        self.kill()
        raise RuntimeError(f"{self._command[2]} did not answer in {_START_S:.0f} s")

    def kill(self) -> None:
        """Take it away without a word."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None


def mlflow_server(folder: Path) -> tuple[LoopbackServer, str]:
    """An MLflow server that keeps everything in `folder`, and its address."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", url.rsplit(":", 1)[1]]
    command += ["--workers", "1", "--artifacts-destination", (folder / "artifacts").as_uri()]
    store = f"sqlite:///{folder / 'mlflow.db'}"
    variables = {"MLFLOW_BACKEND_STORE_URI": store, "_MLFLOW_SERVER_FILE_STORE": store}
    return LoopbackServer(command, f"{url}/health", variables), url


def prefect_server(folder: Path) -> tuple[LoopbackServer, str]:
    """A Prefect server that keeps everything in `folder`, and the address of its API."""
    port = free_port()
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/api"
    return LoopbackServer(command, f"{url}/health", {"PREFECT_HOME": str(folder), "PREFECT_API_URL": url}), url
