"""What DDI devices send. Unknown members are ignored, as the API demands; every size is bounded.

Details are cut, not refused: SWUpdate sends its whole log in one message, and its result must not be lost with it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

Key = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Value = Annotated[str, StringConstraints(max_length=128)]
MOST_DETAILS, DETAIL_CHARS = 50, 512


def _newest(given: object) -> object:
    """The last details, each as long as may be kept."""
    if not isinstance(given, list | tuple):
        return given
    return [one[:DETAIL_CHARS] if isinstance(one, str) else one for one in given[-MOST_DETAILS:]]


Details = Annotated[tuple[str, ...], BeforeValidator(_newest)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Mode(StrEnum):
    """What attributes that are sent do to those that are known."""

    MERGE = "merge"
    REPLACE = "replace"
    REMOVE = "remove"


class ConfigData(_Model):
    """A device's attributes."""

    data: Annotated[dict[Key, Value], Field(max_length=100)]
    mode: Mode = Mode.MERGE


class Execution(StrEnum):
    """How far an action is."""

    CLOSED = "closed"
    PROCEEDING = "proceeding"
    CANCELED = "canceled"
    SCHEDULED = "scheduled"
    REJECTED = "rejected"
    RESUMED = "resumed"
    DOWNLOADED = "downloaded"
    DOWNLOAD = "download"


class Finished(StrEnum):
    """How it ended, once it is closed."""

    SUCCESS = "success"
    FAILURE = "failure"
    NONE = "none"


class Result(_Model):
    """The result of a status."""

    finished: Finished


class Status(_Model):
    """One status."""

    execution: Execution
    result: Result
    details: Details = ()


class Feedback(_Model):
    """Progress or result of an action or of its cancelling."""

    status: Status


class Confirmation(StrEnum):
    """What a user said."""

    CONFIRMED = "confirmed"
    DENIED = "denied"


class ConfirmationFeedback(_Model):
    """A user's consent, or not."""

    confirmation: Confirmation
    details: Details = ()
