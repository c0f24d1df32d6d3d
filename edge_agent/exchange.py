"""Two names trade places in one step: `renameat2` with RENAME_EXCHANGE, which Python does not offer.

Linux has it since 3.15 on ext4, XFS, Btrfs, F2FS, tmpfs and others; where kernel, libc or file system lack it the
caller hears `ExchangeUnsupported` and uses renames. Source: renameat2(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_LACKING = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


class ExchangeUnsupported(OSError):
    """Kernel, libc or file system cannot exchange names."""


def exchange_names(one: Path, other: Path) -> None:
    """Let two existing names of one file system trade places. Raises ExchangeUnsupported, OSError."""
    call = _renameat2()
    if call is None:
        raise ExchangeUnsupported(errno.ENOSYS, "this libc has no renameat2", str(one))
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    kind = ExchangeUnsupported if number in _LACKING else OSError
    raise kind(number, os.strerror(number), str(one))


@cache
def _renameat2() -> Any:  # Any: a foreign function
    # PyDLL keeps the interpreter lock: the call takes microseconds, getting the lock back takes milliseconds
    call = getattr(ctypes.PyDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        call.restype = ctypes.c_int
    return call
