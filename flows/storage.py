"""Files that are whole or absent, and a full disk that says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from flows.errors import StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(final: Path, fill: Callable[[BinaryIO], object], temporary: Path | None = None) -> None:
    """Let `fill` write a file that takes the name `final` when it is complete and on the disk.

    Until then the file that was there before stays. Raises StorageError when there is no room.
    """
    part = temporary or final.with_name(f".{final.name}.part")
    try:
        with part.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(final)
    except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
        if not _is_full(error):
            raise
        part.unlink(missing_ok=True)
        raise StorageError(
            f"no room left to write {final.name} in {final.parent}; what was there before is kept: "
            "free some space and start the same run again"
        ) from error


def _is_full(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
