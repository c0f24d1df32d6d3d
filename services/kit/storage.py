"""Object storage over obstore: a local folder or S3, behind four verbs.

A local object is flushed to disk before `put` returns. Keys are relative, without `..`. Objects are written once:
whoever needs a new version uses a new key (digests are good keys).
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, from_url

from services.kit.settings import settings

_KEY = re.compile(r"^(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9._@=+-]+(/[A-Za-z0-9._@=+-]+)*$")


class ObjectMissing(KeyError):
    """No object has this key."""

    def __str__(self) -> str:
        return f"object {self.args[0]!r} is not in the store"


class ObjectStore:
    """The objects of one platform."""

    def __init__(self, url: str) -> None:
        parsed = urlparse(url)
        self._root = Path(unquote(parsed.path)) if parsed.scheme == "file" else None
        if self._root is not None:
            self._root.mkdir(parents=True, exist_ok=True)
        self._store = LocalStore(self._root) if self._root is not None else _remote(url)

    def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`, durably. A full disk is an OSError with ENOSPC."""
        try:
            obstore.put(self._store, _checked(key), data)
        except BaseError as error:
            if "No space left" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), key) from error
            raise
        if self._root is not None:
            _flush(self._root / key)

    def get(self, key: str) -> bytes:
        """The object's bytes; raises ObjectMissing."""
        try:
            return bytes(obstore.get(self._store, _checked(key)).bytes())
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(key) from error

    def size(self, key: str) -> int:
        """The object's length in bytes; raises ObjectMissing."""
        try:
            return int(obstore.head(self._store, _checked(key))["size"])
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(key) from error

    def exists(self, key: str) -> bool:
        """Whether an object has this key."""
        try:
            self.size(key)
        except ObjectMissing:
            return False
        return True

    def path(self, key: str) -> Path:
        """A local file with the object's bytes, not to be changed: the object itself, or a copy for a remote store."""
        if self._root is not None:
            self.size(key)
            return self._root / key
        folder = Path(tempfile.gettempdir()) / "edgeloop-objects"
        copy = folder / key
        if not copy.exists() or copy.stat().st_size != self.size(key):
            copy.parent.mkdir(parents=True, exist_ok=True)
            partial = copy.with_name(f"{copy.name}.{os.getpid()}.part")
            partial.write_bytes(self.get(key))
            partial.replace(copy)
        return copy

    def keys(self) -> Iterator[str]:
        """Every key, in no order; a temporary file of a torn write is not one."""
        for batch in obstore.list(self._store):
            for entry in batch:
                if _KEY.match(entry["path"]):
                    yield entry["path"]

    def delete(self, key: str) -> None:
        """Remove the object; nothing happens when it is absent."""
        try:
            obstore.delete(self._store, _checked(key))
        except (NotFoundError, FileNotFoundError):
            return

    def check(self) -> None:
        """Raise when the store cannot be read (for the readiness answer)."""
        obstore.list_with_delimiter(self._store)


def _remote(url: str) -> Any:  # Any: obstore's own union of stores
    """A store with the S3 keys of the settings; without them, AWS_* variables or the machine's role hold."""
    access, secret = settings().s3_access_key.get_secret_value(), settings().s3_secret_key.get_secret_value()
    if access and secret:
        return from_url(url, access_key_id=access, secret_access_key=secret)
    return from_url(url)


def store() -> ObjectStore:
    """The process's object store, from the settings."""
    return _store(settings().objects_url)


@lru_cache(maxsize=8)
def _store(url: str) -> ObjectStore:
    return ObjectStore(url)


def _checked(key: str) -> str:
    if len(key) > 512 or not _KEY.match(key):
        raise ValueError(f"object key {key!r} is not a relative path of plain characters")
    return key


def _flush(path: Path) -> None:
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
