"""Hush for tools that log to the root logger: only errors, and the level that was before comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def errors_only() -> Iterator[None]:
    """While this lasts the root logger lets errors through, nothing less."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)
