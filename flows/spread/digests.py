"""SHA-256 of files, computed once while a file stays as it is."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def digest_of(path: Path) -> str:
    """Hex SHA-256. Raises FileNotFoundError."""
    facts = path.stat()
    return _digest(str(path.resolve()), facts.st_ino, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=1_024)
def _digest(path: str, _inode: int, _size: int, _changed_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
