"""Requests a second: a few kept connections, each with one request under way, raw sockets.

The client writes bytes that were made before and reads until the answer is complete; it is light enough for the
server's core to be the limit, and tells its own share of a core so that one can see that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

CONNECTIONS = 16


@dataclass(frozen=True)
class Rate:
    """Answers counted, wall seconds, CPU seconds of the client, and statuses other than the wanted one."""

    answers: int
    seconds: float
    client_cpu_s: float
    wrong: int

    @property
    def a_second(self) -> float:
        return self.answers / self.seconds


def get(url: str, path: str, headers: dict[str, str]) -> bytes:
    """The bytes of a GET."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {urlsplit(url).hostname}", *(f"{n}: {v}" for n, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def drive(url: str, requests: Sequence[bytes], seconds: float, status: int = 304) -> Rate:
    """Send `requests` in turn, again and again, for `seconds`. Answers have no body."""
    return asyncio.run(_drive(url, requests, seconds, f" {status} ".encode()))


async def _drive(url: str, requests: Sequence[bytes], seconds: float, status: bytes) -> Rate:
    parts = urlsplit(url)
    counts, deadline = [0, 0], time.perf_counter() + seconds

    async def one(place: int) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        while time.perf_counter() < deadline:
            writer.write(requests[place % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            counts[0] += 1
            counts[1] += status not in head[:20]
            place += CONNECTIONS
        writer.close()

    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(place) for place in range(CONNECTIONS)))
    return Rate(counts[0], time.perf_counter() - begun, time.process_time() - cpu, counts[1])
