"""Twins for the update repository: objects in memory, real TUF client without a network."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import FetcherInterface, Updater

from services.kit.storage import ObjectMissing
from services.releases.keys import FileKeyStore
from services.releases.tuf_repository import UpdateRepository


class MemoryObjects:
    """An object store in memory that can fail at the n-th write, before or after it."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes = 0
        self.fail_at: int | None = None

    def put(self, key: str, data: bytes) -> None:
        self.writes += 1
        if self.fail_at is not None and self.writes >= self.fail_at:
            raise OSError("the disk is gone")
        self.objects[key] = data

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing(key)
        return self.objects[key]

    def exists(self, key: str) -> bool:
        return key in self.objects


class MovableClock:
    """Real time that a test moves."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Fetcher(FetcherInterface):
    """Fetches by a function from path to (status, bytes)."""

    def __init__(self, get: Callable[[str], tuple[int, bytes]]) -> None:
        self._get = get

    def _fetch(self, url: str) -> Iterator[bytes]:
        status, body = self._get(url.removeprefix("http://tuf.test/"))
        if status != 200:
            raise DownloadHTTPError(f"{url}: {status}", status)
        yield body


def fetch_from(objects: MemoryObjects) -> Fetcher:
    def get(path: str) -> tuple[int, bytes]:
        key = f"tuf/{path}"
        return (200, objects.objects[key]) if key in objects.objects else (404, b"")

    return Fetcher(get)


def updater(folder: Path, fetcher: Fetcher, root: bytes | None) -> Updater:
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "targets").mkdir(exist_ok=True)
    return Updater(
        str(folder / "metadata"),
        "http://tuf.test/metadata/",
        str(folder / "targets"),
        "http://tuf.test/targets/",
        fetcher=fetcher,
        bootstrap=root,
    )


def repository(objects: MemoryObjects, clock: MovableClock, keys: Path | None = None) -> UpdateRepository:
    folder = keys or Path(tempfile.mkdtemp(prefix="edgeloop-keys-"))
    return UpdateRepository(objects, FileKeyStore(folder), clock.now)
