"""A small HTTP/1.1 client for one server: a pool of kept connections, nothing but what light devices need.

A general client spends more time on one request than a whole light device may. Bounded: header (64 KiB, the stream's
own limit) and body sizes, connections, time; an answer that breaks the bounds is an error, never a hang.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from edge_agent.errors import ConfigError, Unreachable

BODY_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Reply:
    """Status, headers (names in lower case) and body."""

    status: int
    headers: dict[str, str]
    body: bytes


Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class LightClient:
    """At most `connections` requests at a time; the others wait for their turn."""

    def __init__(self, url: str, connections: int = 64) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(f"{url!r} is no http address; light devices talk plain http, say http://127.0.0.1:8080")
        self._host, self._port = parts.hostname, parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._turn = asyncio.Semaphore(connections)
        self._idle: list[Wire] = []

    async def request(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Reply:
        """One request. Raises Unreachable when the server is gone, too slow, or does not speak HTTP."""
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        data = ("\r\n".join(lines) + "\r\n\r\n").encode() + body
        async with self._turn:
            return await self._once(data)

    async def close(self) -> None:
        """Close every connection."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _once(self, data: bytes) -> Reply:
        """A kept connection may have been closed by the server meanwhile: then a new one tries once more."""
        while True:
            kept = bool(self._idle)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    wire = self._idle.pop() if kept else await asyncio.open_connection(self._host, self._port)
                    return await self._exchange(wire, data)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
                if kept and isinstance(error, ConnectionError | asyncio.IncompleteReadError):
                    continue
                raise Unreachable(f"{self._host}:{self._port} does not answer ({error or 'too slow'})") from error

    async def _exchange(self, wire: Wire, data: bytes) -> Reply:
        reader, writer = wire
        try:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            first, *rest = head.decode("latin-1").split("\r\n")
            status = _status(first)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
            length = 0 if status in (204, 304) else int(headers.get("content-length", "0"))
            if length > BODY_BYTES:
                raise ValueError(f"an answer of {length} bytes")
            body = await reader.readexactly(length) if length else b""
        except BaseException:
            writer.close()
            raise
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(wire)
        return Reply(status, headers, body)


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"an answer that begins {line[:20]!r}")
    return int(rest[:3])
