"""One file of the update repository, fetched in parts that are kept as soon as they are proved.

Where the signed metadata name the hashes of parts, a part is kept only when its hash fits: a cut, a power loss or a
bad network costs at most one part, and a tampered one is fetched again a few times and then refused. Attempts, bytes
and time are bounded; only transient answers are tried again. A download may be cancelled between any two blocks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    LengthOrHashMismatchError,
    SlowRetrievalError,
)
from tuf.api.metadata import TargetFile

from contracts.bundle.chunks import Chunks
from edge_agent.disk import Disk
from edge_agent.limits import LIMITS
from edge_agent.pace import Cap, Going, always
from edge_agent.transport import RETRIED, Transport, backoff

SUFFIX = ".part"
BLOCK = 64 * 1024
NOT_SATISFIABLE = 416


class BadPart(DownloadError):
    """A part that has not the signed hash."""


class Downloader:
    """Fetches targets into `parts`, a folder that outlives a restart."""

    def __init__(
        self,
        transport: Transport,
        parts: Path,
        disk: Disk,
        cap: Cap | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._parts, self._disk, self._sleep = transport, parts, disk, sleep
        self._cap = cap or Cap()
        self.received = 0
        self.bad_parts = 0

    def fetch(self, url: str, info: TargetFile, to: Path, going: Going = always) -> None:
        """Put the bytes that `info` describes at `to`, not flushed.

        Raises DownloadError (not now), LengthOrHashMismatchError (wrong bytes), Cancelled, OSError.
        """
        self._disk.make_directory(self._parts)
        part = self._parts / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}{SUFFIX}"
        self._forget_others(part)
        chunks = Chunks.parse(info.unrecognized_fields.get("custom"), info.length)
        self._complete(url, _Part(part, info.length, chunks, self._disk), going)
        try:
            with part.open("rb") as file:
                info.verify_length_and_hashes(file)
        except LengthOrHashMismatchError:
            self._disk.remove(part)
            raise
        self._disk.rename(part, to)

    def _forget_others(self, part: Path) -> None:
        """Keep one unfinished file beside this one: a device wants one bundle, whole or as a delta."""
        others = sorted(self._parts.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in [path for path in others if path != part][:-1]:
            self._disk.remove(path)

    def _complete(self, url: str, part: _Part, going: Going) -> None:
        deadline = time.monotonic() + LIMITS.bundle_s
        budget = self.received + LIMITS.download_factor * part.length + BLOCK
        for attempt in range(LIMITS.download_attempts):
            last = attempt + 1 == LIMITS.download_attempts
            try:
                self._more(url, part, deadline, budget, going)
                return
            except (SlowRetrievalError, DownloadLengthMismatchError):
                raise
            except BadPart as error:
                self.bad_parts += 1
                if last:
                    part.drop()
                    raise LengthOrHashMismatchError(str(error)) from error
            except DownloadHTTPError as error:
                if error.status_code == NOT_SATISFIABLE and part.have:
                    part.drop()
                elif error.status_code not in RETRIED or last:
                    raise
            except DownloadError:
                if last:
                    raise
            going()
            self._sleep(backoff(attempt))
        raise DownloadError(f"{url}: no part of it could be had")

    def _more(self, url: str, part: _Part, deadline: float, budget: int, going: Going) -> None:
        have = part.have
        if have >= part.length:
            return
        headers = {**self._transport.headers, "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        try:
            with self._transport.client.stream("GET", url, headers=headers) as response:
                if response.status_code not in (200, 206 if have else 200):
                    raise DownloadHTTPError(f"{url}: {response.status_code}", response.status_code)
                if have and response.status_code == 200:
                    part.drop()
                for block in self._blocks(url, response, deadline, budget, going):
                    part.add(block)
        except httpx.TransportError as error:
            raise DownloadError(f"{url}: {type(error).__name__}: {error}") from error
        finally:
            part.keep()
        if part.have < part.length:
            raise DownloadError(f"{url}: broke off after {part.have} of {part.length} bytes")

    def _blocks(
        self, url: str, response: httpx.Response, deadline: float, budget: int, going: Going
    ) -> Iterator[bytes]:
        for block in response.iter_raw():
            going()
            if time.monotonic() > deadline:
                raise SlowRetrievalError(f"{url}: slower than the time limit allows")
            self.received += len(block)
            if self.received > budget:
                raise SlowRetrievalError(f"{url}: more than {LIMITS.download_factor} times its bytes were spent on it")
            self._cap.took(len(block), going)
            yield block


class _Part:
    """The file on its way: a kept, proved beginning and what has come since."""

    def __init__(self, path: Path, length: int, chunks: Chunks | None, disk: Disk) -> None:
        self.length = length
        self._path, self._chunks, self._disk = path, chunks, disk
        self._coming = bytearray()
        self.have = self._proved()

    def add(self, block: bytes) -> None:
        """Take bytes; every part that is whole is proved and kept. Raises BadPart, DownloadLengthMismatchError."""
        if self.have + len(self._coming) + len(block) > self.length:
            self.drop()
            raise DownloadLengthMismatchError(f"{self._path.name}: more than the {self.length} signed bytes")
        self._coming += block
        size = self._chunks.size if self._chunks else BLOCK
        while len(self._coming) >= size or (self._coming and self.have + len(self._coming) == self.length):
            self._take(bytes(self._coming[:size]))

    def keep(self) -> None:
        """Keep what came, when nothing can prove it before the end anyway; an unproved rest is forgotten."""
        if self._chunks is None and self._coming:
            self._take(bytes(self._coming))
        self._coming.clear()

    def drop(self) -> None:
        """Forget everything."""
        self._coming.clear()
        self._disk.remove(self._path)
        self.have = 0

    def _take(self, data: bytes) -> None:
        if self._chunks is not None and not self._chunks.fits(self.have // self._chunks.size, data):
            self._coming.clear()
            raise BadPart(f"{self._path.name}: bytes {self.have} to {self.have + len(data)} have not the signed hash")
        self._disk.append(self._path, data)
        self.have += len(data)
        del self._coming[: len(data)]

    def _proved(self) -> int:
        """How many bytes of an earlier try are good: all when parts cannot be proved, else whole good parts."""
        if not self._path.exists():
            return 0
        found = self._path.stat().st_size
        good = min(found, self.length) if self._chunks is None else self._good_parts(self._chunks)
        if good < found:
            self._disk.truncate(self._path, good)
        return good

    def _good_parts(self, chunks: Chunks) -> int:
        good = 0
        with self._path.open("rb") as file:
            for index in range(len(chunks.hashes)):
                data = file.read(min(chunks.size, self.length - good))
                if not chunks.fits(index, data):
                    return good
                good += len(data)
        return good
