"""The base of every message: unknown members are refused, values are frozen, NaN is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class Message(BaseModel):
    """A message that says exactly what its schema says."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Answer(BaseModel):
    """An answer of a service: fields may be added later, so readers ignore what they do not know."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{96}$")]
"""SHA-384 in hexadecimal."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
Pseudonym = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Changes every day; no message joins two days of one device."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
