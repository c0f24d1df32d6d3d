"""HTTP to the platform: bounded answers, bounded retries with jitter, Retry-After obeyed.

Splits failures by what the caller can do: Unreachable (try later), Throttled (wait), Refused (give up on this
message). Never called from the frame loop.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from edge_agent.errors import Refused, Throttled, Unreachable
from edge_agent.limits import LIMITS

RETRIED = frozenset({408, 425, 500, 502, 503, 504})
USER_AGENT = "edgeloop-agent"


@dataclass(frozen=True)
class Answer:
    """Status, body and headers of an answer that was read whole."""

    status: int
    body: bytes
    headers: httpx.Headers


def make_client(connections: int = 4) -> httpx.Client:
    """Return a client with the agent's time limits; one may serve several devices of a process."""
    timeout = httpx.Timeout(LIMITS.read_s, connect=LIMITS.connect_s)
    pool = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.Client(timeout=timeout, limits=pool, headers={"User-Agent": USER_AGENT}, follow_redirects=False)


class Transport:
    """Requests of one device. `client` may be shared; `token` is the device's own."""

    def __init__(
        self,
        base_url: str,
        client: httpx.Client,
        token: str = "",
        attempts: int = LIMITS.request_attempts,
        sleep: Callable[[float], None] = time.sleep,
        trip: Callable[[float, bool], None] = lambda seconds, answered: None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._client, self._token = client, token
        self._attempts, self._sleep, self._trip = attempts, sleep, trip

    def with_token(self, token: str) -> Transport:
        """Return the same way to the platform, as the device that owns `token`."""
        return Transport(self.base_url, self._client, token, self._attempts, self._sleep, self._trip)

    def watched(self, trip: Callable[[float, bool], None]) -> Transport:
        """Return the same way, telling `trip` the seconds of every round trip and whether an answer came."""
        return Transport(self.base_url, self._client, self._token, self._attempts, self._sleep, trip)

    @property
    def client(self) -> httpx.Client:
        return self._client

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def get(self, path: str, etag: str = "") -> Answer:
        """GET; with `etag` the answer may be a 304. Raises PlatformError."""
        return self._request("GET", path, {"If-None-Match": etag} if etag else {}, None)

    def post(self, path: str, body: bytes, media: str = "application/json") -> Answer:
        """POST a body. Raises PlatformError."""
        return self._request("POST", path, {"Content-Type": media}, body)

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Answer:
        url = f"{self.base_url}{path}"
        for attempt in range(self._attempts):
            last, began = attempt + 1 == self._attempts, time.monotonic()
            try:
                answer = self._once(method, url, {**self.headers, **headers}, body)
            except httpx.TransportError as error:
                self._trip(time.monotonic() - began, False)
                if last:
                    raise Unreachable(f"{method} {url}: {type(error).__name__}: {error}") from error
            else:
                self._trip(time.monotonic() - began, True)
                if answer.status not in RETRIED or last:
                    return _judged(method, url, answer)
            self._sleep(backoff(attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _once(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        with self._client.stream(method, url, headers=headers, content=body) as response:
            read = bytearray()
            for chunk in response.iter_bytes():
                read += chunk
                if len(read) > LIMITS.answer_bytes:
                    raise Unreachable(f"{method} {url}: the answer is over {LIMITS.answer_bytes} bytes")
            return Answer(response.status_code, bytes(read), response.headers)


def backoff(attempt: int) -> float:
    """Return a wait in seconds: exponential with full jitter."""
    return random.uniform(0.0, min(LIMITS.backoff_most_s, LIMITS.backoff_s * 2**attempt))


def retry_after(headers: httpx.Headers) -> float:
    """Return the seconds that a 429 asks for, within bounds; 5 when it does not say."""
    try:
        asked = float(headers.get("Retry-After", "5"))
    except ValueError:
        asked = 5.0
    return min(max(asked, 0.0), LIMITS.retry_after_most_s)


def _judged(method: str, url: str, answer: Answer) -> Answer:
    status = answer.status
    if status < 400:
        return answer
    said = answer.body[:300].decode("utf-8", "replace")
    if status == 429:
        raise Throttled(f"{method} {url}: 429", retry_after(answer.headers))
    if status >= 500 or status in RETRIED:
        raise Unreachable(f"{method} {url}: {status} {said}")
    raise Refused(f"{method} {url}: {status} {said}", status)
