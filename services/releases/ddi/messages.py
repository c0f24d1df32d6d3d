"""What DDI devices send. Unknown members are ignored, as the API demands; every size is bounded."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Key = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Value = Annotated[str, StringConstraints(max_length=128)]
Detail = Annotated[str, StringConstraints(max_length=512)]


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
    details: Annotated[tuple[Detail, ...], Field(max_length=50)] = ()


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
    details: Annotated[tuple[Detail, ...], Field(max_length=50)] = ()
