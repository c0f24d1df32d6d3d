"""Verified bundle files by digest, shared by the slots of one device or by the devices of one process.

A file gets its final name only after its signature chain, its hashes and its pieces were checked. Invariant:
whatever lies under `<digest>.elb` has that SHA-384, or was damaged later; opening it checks again.
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
from edge_agent.disk import Disk

SUFFIX = ".elb"


class BundleStore:
    """A folder of bundles."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder, self._disk = folder, disk
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._used: WeakValueDictionary[str, Bundle] = WeakValueDictionary()
        self._files: dict[Path, Bundle] = {}
        disk.make_directory(folder)
        for left in folder.glob("*.new"):
            disk.remove(left)

    def path(self, digest: str) -> Path:
        return self._folder / f"{digest}{SUFFIX}"

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

    def forget(self, digest: str) -> None:
        """Open this bundle afresh the next time, whoever still uses it."""
        self._used.pop(digest, None)

    def open(self, digest: str) -> Bundle:
        """Open and verify a stored bundle; one that is in use stays open. Raises BundleError, OSError."""
        used = self._used.get(digest)
        if used is not None and self.path(digest).exists():
            return used
        bundle = Bundle.open(self.path(digest))
        if bundle.digest != digest:
            raise BundleError(self.path(digest).name, "its SHA-384 is not its name", "it will be fetched again")
        self._used[digest] = bundle
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
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path.stem not in keep and time.time() - path.stat().st_mtime > older_than_s:
                self._disk.remove(path)
                removed += 1
        return removed
