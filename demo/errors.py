"""What ends a demo early."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on; the message says what was waited for and where to look."""
