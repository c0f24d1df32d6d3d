"""What can go wrong between a client and a lab process, split by what the caller can do.

LabError
├── LabUnavailable      the process cannot be started: repair the command
├── LabDied             the process ended: start another; carries exit status and its last words
├── LabTimeout          no answer in time, the process was ended: start another or give more time
├── LabProtocolError    a malformed or oversized message: versions differ, or a defect
└── LabRefused          the device answered no: `kind` names its error, the process goes on
"""

from __future__ import annotations


class LabError(Exception):
    """Base of all errors of the lab protocol."""


class LabUnavailable(LabError):
    """The lab process could not be started."""


class LabDied(LabError):
    """The lab process ended before it answered."""


class LabTimeout(LabError):
    """The lab process did not answer in time and was ended."""


class LabProtocolError(LabError):
    """A message is malformed or larger than the limits."""


class LabRefused(LabError):
    """The device refused the request or failed at it; `kind` is the device's error class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
