"""What telemetry tells operators."""

from __future__ import annotations

from pydantic import Field

from contracts.wire.base import Answer


class StreamLag(Answer):
    """How far a stream's reader is behind. Row ids, except `waiting` (rows) and `oldest_s` (seconds)."""

    stream: str
    accepted: int = Field(description="id of the newest row")
    published: int = Field(description="id of the newest row in the stream; -1 while Redis does not answer")
    finished: int = Field(description="durable mark: the reader has everything up to this id")
    waiting: int = Field(description="ids between the durable mark and the newest row")
    oldest_s: float = Field(description="seconds that the oldest row behind the mark waits")


class Standing(Answer):
    """The lag of the readers, and what was refused at the door in the days that are kept."""

    streams: list[StreamLag]
    refused: dict[str, int]
