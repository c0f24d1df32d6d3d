"""Errors of the trusted environment, split by what the caller can do.

TeeUnavailable   it does not answer: use what needs no secret, try again later
TeeRefused       it answered no, and says why; the same question gets the same answer
"""

from __future__ import annotations

from enum import IntEnum

from edge_agent.errors import AgentError


class Why(IntEnum):
    """Reasons of a no. Numbers are part of the protocol."""

    MALFORMED = 1
    WRONG_KEY = 2
    """The envelope was made for another device, bundle, class or epoch, or does not open this file."""
    WRONG_CLASS = 3
    OLD_EPOCH = 4
    DAMAGED = 5
    """Opened, and not the bundle that it says."""
    BROKEN = 6
    """The environment itself failed."""


class TeeUnavailable(AgentError):
    """Dead, hanging, or not to be started."""


class TeeRefused(AgentError):
    """A final no."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(f"sealed bundle refused ({why.name.lower().replace('_', ' ')}): {message}")
        self.why = why
