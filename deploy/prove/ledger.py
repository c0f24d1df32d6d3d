"""A device that keeps book: it sends reports without pause and remembers which were acknowledged.

Its token is made valid by the platform's own bootstrap code inside the container `api`; it never enrols, so it is no
part of the fleet and of no rollout. Its reports carry an observer of their own: they touch no cohort of the demo.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from pathlib import Path

import httpx
import numpy as np

from contracts.clock import FileClock, day_of
from contracts.device import DeviceTags
from contracts.statistics import DriftReport, encode_report
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from deploy.prove.engine import Engine, EngineError, container
from services.operations.bootstrap import new_token

TAGS = DeviceTags(device_class="npu-4t", scenario="ledger")
OBSERVER = "ledger"
EVERY_S, TIMEOUT_S = 0.25, 20.0
FRAMES = 300
ADOPT = "import sys; from services.operations.bootstrap import adopt; adopt('device', sys.stdin.read().strip())"
QUERY = "PGPASSWORD=$(cat /run/secrets/postgresql_password) psql -h 127.0.0.1 -U postgres -d edgeloop -At -c"


class Ledger(threading.Thread):
    """Sends to `base_url` until `close`; `acknowledged` are pseudonyms (hex) answered 202, `refused` other answers."""

    def __init__(self, engine: Engine, base_url: str, clock_file: Path) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.refused: dict[int, int] = {}
        self.unanswered = 0
        self.taken: set[str] = set()
        self._engine, self._url, self._clock = engine, f"{base_url}/telemetry/v1/reports", FileClock(clock_file)
        self._token = new_token()
        self._end = threading.Event()

    def open(self) -> None:
        """Make the token valid and begin."""
        words = ("exec", "--interactive", container("api"), "python", "-c", ADOPT)
        self._engine.podman(*words, stdin=self._token)
        self.start()

    def look(self) -> None:
        """Note what drift has taken over by now: it forgets reports of observers that nobody registers. Keeps calm
        while the database is down.
        """
        with contextlib.suppress(EngineError):
            self.taken |= set(rows(self._engine, "select pseudonym from drift.device_days"))

    def close(self) -> None:
        """Stop sending."""
        self._end.set()
        self.join(2 * TIMEOUT_S)

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream"}
        with httpx.Client(headers=headers, timeout=TIMEOUT_S, trust_env=False) as http:
            while not self._end.wait(EVERY_S):
                self._send(http, secrets.token_hex(16))

    def _send(self, http: httpx.Client, pseudonym: str) -> None:
        try:
            answer = http.post(self._url, content=report(pseudonym, day_of(self._clock.now())))
        except httpx.HTTPError:
            self.unanswered += 1
            return
        if answer.status_code == 202:
            self.acknowledged.append(pseudonym)
        else:
            self.refused[answer.status_code] = self.refused.get(answer.status_code, 0) + 1


def report(pseudonym: str, day: int) -> bytes:
    """A plain report of `day`: every value the same, so that nothing drifts."""
    histogram = np.zeros((HISTOGRAMS, BINS), np.int64)
    histogram[:, 3] = FRAMES
    made = DriftReport(
        pseudonym=pseudonym, embedding_id=OBSERVER, day=day, frames=FRAMES, sessions=3, clipped=0, score_mean=0.5,
        hard_segments=0, tags=TAGS, mean=np.zeros(DIMENSIONS, np.float32), variance=np.ones(DIMENSIONS, np.float32),
        projected_covariance=np.eye(SUBSPACE, dtype=np.float32), histogram=histogram,
    )  # fmt: skip
    return encode_report(made, b"the ledger's key")


def rows(engine: Engine, query: str) -> list[str]:
    """Lines that a query gives in the composition's database."""
    told = engine.podman("exec", container("postgres"), "sh", "-c", f'{QUERY} "{query}"')
    return [line for line in told.splitlines() if line]
