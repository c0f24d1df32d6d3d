"""A stand-in for the flow engine (Prefect's REST API): some thousand runs, read by pages, each with its lines.

The engine is a program of others, so its own speed is not measured: it answers from memory, in a thread of the bench.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from embedded.ports import HOST

RUNS, LINES = 5_000, 200
Json = dict[str, Any]  # Any: JSON


def run_id(number: int) -> str:
    """Runs by number, the newest first."""
    return str(UUID(int=number + 1))


@contextmanager
def flow_engine(now: float) -> Iterator[str]:
    """The engine on a loopback port; gives the address of its API."""

    class Handler(_Handler):
        moment = now

    server = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/api"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    moment = 0.0

    def do_GET(self) -> None:  # the base class's name
        wanted = self.path.rpartition("/")[2]
        number = UUID(wanted).int - 1
        self._answer(_run(number, self.moment) if 0 <= number < RUNS else None)

    def do_POST(self) -> None:  # the base class's name
        asked: Json = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        if self.path.endswith("/flow_runs/filter"):
            offset, limit = int(asked.get("offset", 0)), int(asked["limit"])
            self._answer([_run(number, self.moment) for number in range(offset, min(offset + limit, RUNS))])
        else:
            line = {"level": 20, "message": "search 40 %", "timestamp": _iso(self.moment)}
            self._answer([line] * LINES)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def _answer(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200 if document is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _run(number: int, now: float) -> Json:
    at = now - 3_600.0 * number
    state = ("COMPLETED", "FAILED", "COMPLETED", "RUNNING" if number < 3 else "COMPLETED")[number % 4]
    return {
        "id": run_id(number), "name": f"fast-otter-{number}", "state_type": state, "state_name": state.title(),
        "state": {"message": ""}, "expected_start_time": _iso(at), "start_time": _iso(at), "end_time": _iso(at + 900),
        "total_run_time": 900.0, "run_count": 1, "deployment_id": run_id(0), "parameters": {"alarm_id": f"a-{number}"},
        "tags": ["drift"],
    }  # fmt: skip


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
