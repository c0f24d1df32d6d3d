"""Signed downloads: python-tuf's client with this agent's own fetcher, downloader and disk.

python-tuf decides what is trusted; the fetcher bounds every byte and second of metadata, the downloader those of
bundles. Where the repository has a signed delta from a bundle that this device holds, and it is clearly smaller, the
delta is fetched and applied; its result must be the signed bundle to the byte, else the whole bundle is fetched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    LengthOrHashMismatchError,
    RepositoryError,
    SlowRetrievalError,
)
from tuf.api.metadata import TargetFile
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface

from contracts.bundle.delta import DeltaError, apply_delta, delta_path
from contracts.bundle.sealed import MOST_BYTES
from edge_agent.disk import Disk
from edge_agent.download import Downloader
from edge_agent.errors import TrustError, Unreachable
from edge_agent.limits import LIMITS
from edge_agent.metadata import DiskUpdater
from edge_agent.pace import Cap, Going, always
from edge_agent.transport import Transport

log = logging.getLogger(__name__)
METADATA = "/releases/tuf/metadata/"
TARGETS = "/releases/tuf/targets/"


class MetadataCache(Protocol):
    """Metadata bytes shared by devices behind one wire; each device still verifies them itself."""

    def get(self, url: str, fetch: Callable[[], bytes]) -> bytes:
        """Return the bytes of `url`, from memory or by `fetch`."""


class NoCache:
    """Every read goes over the network."""

    def get(self, url: str, fetch: Callable[[], bytes]) -> bytes:
        return fetch()


class BoundedFetcher(FetcherInterface):
    """Reads metadata whole, within `LIMITS`."""

    def __init__(self, transport: Transport, cache: MetadataCache | None = None) -> None:
        self._transport = transport
        self._cache = cache or NoCache()

    def _fetch(self, url: str) -> Iterator[bytes]:
        deadline = time.monotonic() + LIMITS.metadata_s
        headers = {**self._transport.headers, "Accept-Encoding": "identity"}
        try:
            with self._transport.client.stream("GET", url, headers=headers) as response:
                if response.status_code != 200:
                    raise DownloadHTTPError(f"{url}: {response.status_code}", response.status_code)
                for chunk in response.iter_raw():
                    if time.monotonic() > deadline:
                        raise SlowRetrievalError(f"{url}: slower than the time limit allows")
                    yield chunk
        except httpx.TransportError as error:
            raise DownloadError(f"{url}: {type(error).__name__}: {error}") from error

    def download_bytes(self, url: str, max_length: int) -> bytes:
        bound = min(max_length, LIMITS.metadata_bytes)
        return self._cache.get(url, lambda: super(BoundedFetcher, self).download_bytes(url, bound))


class SignedRepository:
    """The platform's update repository as this device trusts it. `deltas` counts bundles that came as one."""

    def __init__(
        self,
        folder: Path,
        trusted_root: str,
        transport: Transport,
        cache: MetadataCache | None = None,
        disk: Disk | None = None,
        cap: Cap | None = None,
    ) -> None:
        self._folder, self._root, self._transport = folder, trusted_root.encode(), transport
        self._disk = disk or Disk()
        self._fetcher = BoundedFetcher(transport, cache)
        self.downloader = Downloader(transport, folder / "parts", self._disk, cap)
        self.deltas = 0

    def fetch(
        self,
        path: str,
        to: Path,
        known: Path | None = None,
        digest: str = "",
        bases: Mapping[str, Path] | None = None,
        going: Going = always,
    ) -> Path:
        """Return a file whose length and hashes the signed metadata name: `known` when it is that, else `to`.

        `bases` are bundles that this device holds, by digest: with `digest`, that of the bundle, a delta from one of
        them may be used. `going` is called often and may raise Cancelled.
        Raises TrustError (signature, expiry, version, hash, unknown path), Unreachable, Cancelled, OSError.
        """
        with _judged(path):
            updater = self._updater()
            info = _signed(updater, path)
            if known is not None and _is(info, known):
                return known
            if not self._by_delta(updater, info, to, digest, bases or {}, going):
                self.download(info, to, going)
            return to

    @contextmanager
    def visit(self, path: str) -> Iterator[tuple[TargetFile, Callable[[str], TargetFile | None]]]:
        """Give what the newest signed metadata say of `path`, and a way to ask for other paths; downloads belong
        inside.

        Raises TrustError, Unreachable.
        """
        with _judged(path):
            updater = self._updater()
            yield _signed(updater, path), updater.get_targetinfo

    def download(self, info: TargetFile, to: Path, going: Going = always) -> None:
        """Put the bytes of a signed target at `to`, not flushed. Inside of `visit` only."""
        if info.length > MOST_BYTES:
            raise RepositoryError(f"target {info.path} has {info.length} bytes, more than {MOST_BYTES}")
        (prefixed, *_) = info.get_prefixed_paths()
        self.downloader.fetch(f"{self._transport.base_url}{TARGETS}{prefixed}", info, to, going)

    def _updater(self) -> DiskUpdater:
        config = UpdaterConfig(
            max_root_rotations=LIMITS.metadata_roots,
            root_max_length=LIMITS.metadata_bytes,
            snapshot_max_length=LIMITS.metadata_bytes,
            targets_max_length=LIMITS.metadata_bytes,
        )
        base = f"{self._transport.base_url}{METADATA}"
        return DiskUpdater(self._folder / "metadata", base, self._fetcher, config, self._root, self._disk)

    def _by_delta(
        self,
        updater: DiskUpdater,
        info: TargetFile,
        to: Path,
        digest: str,
        bases: Mapping[str, Path],
        going: Going,
    ) -> bool:
        """Try the smallest delta; False when there is none that wins, or when it did not lead to the bundle."""
        found = ((updater.get_targetinfo(delta_path(digest, base)), path) for base, path in bases.items() if digest)
        usable = [(delta, path) for delta, path in found if delta and delta.length < LIMITS.delta_share * info.length]
        if not usable:
            return False
        delta, base = min(usable, key=lambda pair: int(pair[0].length))
        try:
            self.download(delta, to, going)
            result = apply_delta(self._disk.read(base, LIMITS.bundle_bytes), to.read_bytes(), LIMITS.bundle_bytes)
            info.verify_length_and_hashes(result)
        except (DeltaError, LengthOrHashMismatchError, DownloadHTTPError) as error:
            log.warning("delta %s is of no use (%s); the whole bundle is fetched", delta.path, error)
            return False
        self._disk.write(to, result)
        self.deltas += 1
        return True


@contextmanager
def _judged(path: str) -> Iterator[None]:
    """Say what a failure means for the caller."""
    try:
        yield
    except RepositoryError as error:
        raise TrustError(f"update of {path} refused: {type(error).__name__}: {error}") from error
    except DownloadLengthMismatchError as error:
        raise TrustError(f"update of {path} refused: {error}") from error
    except DownloadError as error:
        raise Unreachable(f"update of {path} not fetched: {error}") from error


def _signed(updater: DiskUpdater, path: str) -> TargetFile:
    info = updater.get_targetinfo(path)
    if info is None:
        raise RepositoryError(f"the signed metadata name no target {path}; the bundle was not released")
    return info


def _is(info: TargetFile, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            info.verify_length_and_hashes(file)
    except (OSError, LengthOrHashMismatchError):
        return False
    return True
