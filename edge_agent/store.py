"""Verified bundle files by digest, shared by the slots of one device or by the devices of one process.

A file gets its final name only after its signature chain, its hashes and its pieces were checked. Invariants: whatever
lies under `<digest>.elb` has that SHA-384, or was damaged later; a sealed bundle lies here only as `<digest>.els`,
stored under a key of this device's trusted environment, and is opened into memory; opening checks again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from contracts.bundle import Bundle, BundleError
from contracts.bundle.sealed import MOST_BYTES
from edge_agent.disk import Disk
from edge_agent.tee import TeeUnavailable, TrustedEnvironment

SUFFIX, STORED_SUFFIX = ".elb", ".els"


class BundleStore:
    """A folder of bundles."""

    def __init__(self, folder: Path, disk: Disk, tee: TrustedEnvironment | None = None) -> None:
        self._folder, self._disk, self.tee = folder, disk, tee
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._used: WeakValueDictionary[str, Bundle] = WeakValueDictionary()
        self._files: dict[Path, Bundle] = {}
        self.sealed_used = any(folder.glob(f"*{STORED_SUFFIX}"))
        """Whether this device has ever had to do with sealed bundles, as far as its disk knows."""
        disk.make_directory(folder)
        for left in folder.glob("*.new"):
            disk.remove(left)

    def path(self, digest: str) -> Path:
        """Where a plain bundle lies."""
        return self._folder / f"{digest}{SUFFIX}"

    def stored_path(self, digest: str) -> Path:
        """Where a sealed bundle lies, under this device's own key."""
        return self._folder / f"{digest}{STORED_SUFFIX}"

    def find(self, digest: str) -> Path | None:
        """The file of a bundle, plain or stored under the device's key; None when there is none."""
        if not digest:
            return None
        return next((path for path in (self.path(digest), self.stored_path(digest)) if path.exists()), None)

    def incoming(self, digest: str, device: str) -> Path:
        """Where a download is put before it is trusted."""
        return self._folder / f"{digest[:16]}-{hashlib.sha256(device.encode()).hexdigest()[:16]}.new"

    @contextmanager
    def exclusive(self, digest: str) -> Iterator[None]:
        """Let one thread at a time fetch a bundle."""
        with self._locks[digest]:
            yield

    def adopt(self, incoming: Path, digest: str) -> Bundle:
        """Verify a downloaded file and give it its name. Raises BundleError or OSError; then nothing is
        kept.
        """
        try:
            bundle = Bundle.open(incoming)
            if bundle.digest != digest:
                raise BundleError(incoming.name, "its SHA-384 is not the one that was offered", "fetch it again")
        except (BundleError, OSError):
            self._disk.remove(incoming)
            raise
        self._disk.sync(incoming)
        self._disk.rename(incoming, self.path(digest))
        self._disk.sync_directory(self._folder)
        self.forget(digest)
        return self.open(digest)

    def adopt_stored(self, incoming: Path, stored: bytes, digest: str) -> Bundle:
        """Keep what the trusted environment admitted, after it was opened once and found whole. Raises BundleError,
        TeeUnavailable, TeeRefused, OSError; then nothing is kept.
        """
        bundle = self._unsealed(stored, digest)
        self._disk.write(incoming, stored)
        self._disk.rename(incoming, self.stored_path(digest))
        self._disk.sync_directory(self._folder)
        self._used[digest], self.sealed_used = bundle, True
        return bundle

    def forget(self, digest: str) -> None:
        """Open this bundle afresh the next time, whoever still uses it."""
        self._used.pop(digest, None)

    def open(self, digest: str) -> Bundle:
        """Open and verify a bundle; one that is in use stays open. Raises BundleError, OSError, TeeUnavailable and
        TeeRefused.
        """
        used, path = self._used.get(digest), self.find(digest)
        if used is not None and path is not None:
            return used
        if path == self.stored_path(digest):
            bundle = self._unsealed(self._disk.read(path, MOST_BYTES + 1), digest)
        else:
            bundle = Bundle.open(self.path(digest))
        if bundle.digest != digest:
            raise BundleError(self.path(digest).name, "its SHA-384 is not its name", "it will be fetched again")
        self._used[digest] = bundle
        return bundle

    def _unsealed(self, stored: bytes, digest: str) -> Bundle:
        if self.tee is None:
            raise TeeUnavailable("a sealed bundle lies here and this device has no trusted environment")
        path = self.stored_path(digest)
        bundle = Bundle.of(self.tee.open(stored), path)
        if bundle.digest != digest:
            raise BundleError(path.name, "its SHA-384 is not its name", "it will be fetched again")
        return bundle

    def open_file(self, path: Path) -> Bundle:
        """Open and verify a file outside of the store, once for all devices that share the store."""
        if path not in self._files:
            self._files[path] = Bundle.open(path)
        return self._files[path]

    def collect(self, keep: Set[str], older_than_s: float = 120.0) -> int:
        """Remove bundles that nobody refers to; return how many. A fresh one may just be on its way to a
        slot.
        """
        removed = 0
        for path in (*self._folder.glob(f"*{SUFFIX}"), *self._folder.glob(f"*{STORED_SUFFIX}")):
            if path.stem not in keep and time.time() - path.stat().st_mtime > older_than_s:
                self._disk.remove(path)
                removed += 1
        return removed
