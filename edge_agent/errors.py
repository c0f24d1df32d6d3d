"""Errors of the agent, split by what the caller can do about them.

AgentError                  says what, where and the remedy; the command line prints it and exits 2
├── ConfigError             the user has to change the configuration
├── VideoError              the video cannot be read; the agent goes on with the next source
├── EnrolmentError          the user needs another token
├── SlotError               the slot store cannot do that now; nothing was changed
├── OutboxError             the entry was not stored; the call goes on, the loss is counted
├── Cancelled               somebody called it off; nothing was changed
│   └── Withdrawn           the platform did: it hears that it was heard
└── PlatformError           the platform did not answer as agreed
    ├── Unreachable         try later; nothing is lost
    ├── Refused             this message will never be accepted (4xx); drop it and count it
    ├── Throttled           try after `retry_after` seconds
    └── TrustError          signature, expiry, epoch or hash is wrong: keep what runs now
"""

from __future__ import annotations


class AgentError(Exception):
    """Something went wrong; the message names what, where and the remedy."""


class ConfigError(AgentError):
    """A setting is missing or wrong."""


class VideoError(AgentError):
    """A video cannot be opened or decoded."""


class EnrolmentError(AgentError):
    """The device could not join."""


class SlotError(AgentError):
    """The slot store refused a transition."""


class OutboxError(AgentError):
    """An entry could not be stored."""


class Cancelled(AgentError):
    """Somebody called it off."""


class Withdrawn(Cancelled):
    """The platform does not want it any more."""


class PlatformError(AgentError):
    """The platform did not do what was asked."""


class Unreachable(PlatformError):
    """No answer, or a 5xx: worth another try later."""


class Throttled(PlatformError):
    """The platform asks to wait."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(PlatformError):
    """A final no."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TrustError(PlatformError):
    """What came cannot be trusted; it was not stored and not run."""
