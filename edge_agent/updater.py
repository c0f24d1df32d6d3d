"""Signed downloads: python-tuf's client with this agent's own fetcher.

python-tuf decides what is trusted; the fetcher bounds every byte and second and resumes a broken bundle
download where it stopped. A partial file that turns out wrong is removed, so a bad part is never resumed
for ever.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import httpx
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    RepositoryError,
    SlowRetrievalError,
)
from tuf.api.metadata import TargetFile
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

from edge_agent.errors import TrustError, Unreachable
from edge_agent.limits import LIMITS
from edge_agent.transport import RETRIED, Transport, backoff

METADATA = "/releases/tuf/metadata/"
TARGETS = "/releases/tuf/targets/"
RESTART = b""
"""An empty chunk says that the server sends the whole file although a part was asked for."""


class MetadataCache(Protocol):
    """Metadata bytes shared by devices behind one wire; each device still verifies them itself."""

    def get(self, url: str, fetch: Callable[[], bytes]) -> bytes:
        """Return the bytes of `url`, from memory or by `fetch`."""


class NoCache:
    """Every read goes over the network."""

    def get(self, url: str, fetch: Callable[[], bytes]) -> bytes:
        return fetch()


class BoundedFetcher(FetcherInterface):
    """Reads metadata whole and bundles in resumable parts, within `LIMITS`."""

    def __init__(
        self,
        transport: Transport,
        parts: Path,
        cache: MetadataCache | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._parts, self._sleep = transport, parts, sleep
        self._cache = cache or NoCache()

    def _fetch(self, url: str) -> Iterator[bytes]:
        return self._stream(url, {}, time.monotonic() + LIMITS.metadata_s, expect=200)

    def download_bytes(self, url: str, max_length: int) -> bytes:
        bound = min(max_length, LIMITS.metadata_bytes)
        return self._cache.get(url, lambda: super(BoundedFetcher, self).download_bytes(url, bound))

    @contextmanager
    def download_file(self, url: str, max_length: int) -> Iterator[IO[bytes]]:
        if not url.startswith(f"{self._transport.base_url}{TARGETS}"):
            with super().download_file(url, max_length) as file:
                yield file
            return
        part = self._parts / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.part"
        self._complete(url, part, min(max_length, LIMITS.bundle_bytes))
        try:
            with part.open("rb") as file:
                yield file
        finally:
            part.unlink(missing_ok=True)

    def _complete(self, url: str, part: Path, length: int) -> None:
        part.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + LIMITS.bundle_s
        for attempt in range(LIMITS.download_attempts):
            try:
                self._more(url, part, length, deadline)
                return
            except (SlowRetrievalError, DownloadLengthMismatchError):
                raise
            except DownloadHTTPError as error:
                if error.status_code not in RETRIED or attempt + 1 == LIMITS.download_attempts:
                    raise
            except DownloadError:
                if attempt + 1 == LIMITS.download_attempts:
                    raise
            self._sleep(backoff(attempt))

    def _more(self, url: str, part: Path, length: int, deadline: float) -> None:
        have = part.stat().st_size if part.exists() else 0
        if have >= length:
            return
        headers = {"Range": f"bytes={have}-"} if have else {}
        with part.open("ab") as file:
            for chunk in self._stream(url, headers, deadline, expect=206 if have else 200):
                if chunk == RESTART:
                    file.truncate(0)
                    have = 0
                    continue
                have += len(chunk)
                if have > length:
                    part.unlink(missing_ok=True)
                    raise DownloadLengthMismatchError(f"{url}: more than the {length} signed bytes")
                file.write(chunk)
        if have < length:
            raise DownloadError(f"{url}: broke off after {have} of {length} bytes")

    def _stream(self, url: str, headers: dict[str, str], deadline: float, expect: int) -> Iterator[bytes]:
        sent = {**self._transport.headers, **headers, "Accept-Encoding": "identity"}
        try:
            with self._transport.client.stream("GET", url, headers=sent) as response:
                if response.status_code not in (200, expect):
                    raise DownloadHTTPError(f"{url}: {response.status_code}", response.status_code)
                if expect == 206 and response.status_code == 200:
                    yield RESTART
                for chunk in response.iter_raw():
                    if time.monotonic() > deadline:
                        raise SlowRetrievalError(f"{url}: slower than the time limit allows")
                    yield chunk
        except httpx.TransportError as error:
            raise DownloadError(f"{url}: {type(error).__name__}: {error}") from error


class SignedRepository:
    """The platform's update repository as this device trusts it."""

    def __init__(
        self, folder: Path, trusted_root: str, transport: Transport, cache: MetadataCache | None = None
    ) -> None:
        self._folder, self._root, self._transport = folder, trusted_root.encode(), transport
        self._fetcher = BoundedFetcher(transport, folder / "parts", cache)

    def fetch(self, path: str, to: Path, known: Path | None = None) -> Path:
        """Return a file whose length and hashes the signed metadata name: `known` when it is that, else `to`.

        Raises TrustError (signature, expiry, version, hash, unknown path), Unreachable, OSError.
        """
        metadata = self._folder / "metadata"
        metadata.mkdir(parents=True, exist_ok=True)
        config = UpdaterConfig(
            max_root_rotations=LIMITS.metadata_roots,
            root_max_length=LIMITS.metadata_bytes,
            snapshot_max_length=LIMITS.metadata_bytes,
            targets_max_length=LIMITS.metadata_bytes,
        )
        try:
            updater = Updater(
                str(metadata),
                f"{self._transport.base_url}{METADATA}",
                target_base_url=f"{self._transport.base_url}{TARGETS}",
                fetcher=self._fetcher,
                config=config,
                bootstrap=self._root,
            )
            info = updater.get_targetinfo(path)
            return _fetch_target(updater, info, path, to, known)
        except RepositoryError as error:
            raise TrustError(f"update of {path} refused: {type(error).__name__}: {error}") from error
        except DownloadLengthMismatchError as error:
            raise TrustError(f"update of {path} refused: {error}") from error
        except DownloadError as error:
            raise Unreachable(f"update of {path} not fetched: {error}") from error


def _fetch_target(updater: Updater, info: TargetFile | None, path: str, to: Path, known: Path | None) -> Path:
    if info is None:
        raise TrustError(f"the signed metadata name no target {path}; the bundle was not released")
    if info.length > LIMITS.bundle_bytes:
        raise TrustError(f"target {path} has {info.length} bytes, more than {LIMITS.bundle_bytes}")
    if known is not None and updater.find_cached_target(info, str(known)):
        return known
    updater.download_target(info, str(to))
    return to
