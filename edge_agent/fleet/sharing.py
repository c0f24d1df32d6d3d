"""What comes over the wire once for all devices of a process: the state document and signed metadata.

Only bytes are shared. Every device still checks signature, epoch, version and expiry with its own roots of
trust.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tuf.api.exceptions import DownloadHTTPError

from edge_agent.platform import Document, HttpStateFeed
from edge_agent.transport import Transport

MOST = 128


class SharedStateFeed:
    """Fetches the state document at most once in `ttl_s` seconds, for whoever asks first."""

    def __init__(self, ttl_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ttl, self._monotonic = ttl_s, monotonic
        self._lock = threading.Lock()
        self._feed: HttpStateFeed | None = None
        self._document: Document | None = None
        self._until = float("-inf")

    def use(self, transport: Transport) -> None:
        """Ask in the name of this device from now on."""
        self._feed = HttpStateFeed(transport)

    def fetch(self, known_etag: str) -> Document | None:
        """Return the document, or None when the caller has it. Raises PlatformError."""
        feed, document = self._feed, self._document
        if feed is not None and self._monotonic() >= self._until and self._lock.acquire(blocking=document is None):
            try:
                document = self._refresh(feed)
            finally:
                self._lock.release()
        if document is None or (known_etag and document.etag == known_etag):
            return None
        return document

    def _refresh(self, feed: HttpStateFeed) -> Document | None:
        if self._monotonic() < self._until:
            return self._document
        self._until = self._monotonic() + self._ttl
        fresh = feed.fetch(self._document.etag if self._document else "")
        if fresh is not None:
            self._document = fresh
        return self._document


@dataclass(frozen=True)
class _Kept:
    until: float
    body: bytes | None
    error: DownloadHTTPError | None


class SharedMetadata:
    """Metadata files of the update repository; also remembers, shortly, that a file is not there."""

    def __init__(self, ttl_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ttl, self._monotonic = ttl_s, monotonic
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def get(self, url: str, fetch: Callable[[], bytes]) -> bytes:
        """Return the bytes of `url`. Raises what `fetch` raises."""
        with self._lock:
            kept = self._kept.get(url)
            if kept is None or self._monotonic() >= kept.until:
                kept = self._fetch(url, fetch)
        if kept.error is not None:
            raise DownloadHTTPError(str(kept.error), kept.error.status_code)
        assert kept.body is not None
        return kept.body

    def _fetch(self, url: str, fetch: Callable[[], bytes]) -> _Kept:
        until = self._monotonic() + self._ttl
        try:
            kept = _Kept(until, fetch(), None)
        except DownloadHTTPError as error:
            if error.status_code not in (403, 404):
                raise
            kept = _Kept(until, None, error)
        self._kept[url] = kept
        self._kept.move_to_end(url)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return kept
