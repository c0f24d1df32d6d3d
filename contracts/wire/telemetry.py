"""What a device tells about the pictures it saw: compressed features, never a pixel.

A hard-example segment carries at most 16 feature channels at 1/32 resolution with 4 bits each. Time is cut
to the hour, the sender is a pseudonym that changes every day, metadata are coarse.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from contracts.device import DeviceTags
from contracts.features import unpack_bytes
from contracts.wire.base import Answer, Identifier, Message, Pseudonym
from contracts.wire.limits import LIMITS

MAX_CODES_BASE64 = 48_000
MAX_CODES = 72_000


class SegmentUpload(Message):
    """A run of frames that the quality net found hard.

    `codes` is base64 of the packed 4-bit feature maps (see contracts.features), frames first, then rows,
    columns and channels. `score_mean` and `score_max` are expected quality loss in dB, `motion` the mean
    absolute difference of neighbouring frames in LSB.
    """

    segment_id: Identifier
    embedding_id: Identifier
    model_version: Identifier
    pseudonym: Pseudonym
    hour: Annotated[int, Field(ge=0, le=10_000_000)]
    tags: DeviceTags
    frames: Annotated[int, Field(ge=1, le=LIMITS.segment_frames)]
    height: Annotated[int, Field(ge=1, le=LIMITS.segment_side)]
    width: Annotated[int, Field(ge=1, le=LIMITS.segment_side)]
    channels: Annotated[int, Field(ge=1, le=LIMITS.segment_channels)]
    codes: Annotated[str, StringConstraints(max_length=MAX_CODES_BASE64)]
    score_mean: Annotated[float, Field(ge=-100.0, le=100.0)]
    score_max: Annotated[float, Field(ge=-100.0, le=100.0)]
    motion: Annotated[float, Field(ge=0.0, le=255.0)] = 0.0

    @model_validator(mode="after")
    def _codes_fit_the_shape(self) -> SegmentUpload:
        values = self.frames * self.height * self.width * self.channels
        if values > MAX_CODES:
            raise ValueError(f"at most {MAX_CODES} codes fit a segment, got {values}; send fewer frames")
        unpack_bytes(self.codes, (values + 1) // 2)
        return self


class Accepted(Answer):
    """The message is stored durably; `duplicate` when it had been stored before."""

    accepted: bool = True
    duplicate: bool = False
