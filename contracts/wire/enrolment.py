"""How a device joins: a one-time token and a public key against an identity and the roots of trust."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.device import DeviceTags
from contracts.wire.base import Answer, Message


class EnrolmentRequest(Message):
    """Sent once. `public_key` is base64 of the raw 32-byte Ed25519 key."""

    token: Annotated[str, StringConstraints(min_length=16, max_length=200)]
    public_key: Annotated[str, StringConstraints(min_length=44, max_length=44)]
    tags: DeviceTags
    agent_version: Annotated[str, StringConstraints(max_length=32)] = "0"
    running_digest: Annotated[str, StringConstraints(max_length=96)] = ""


class EnrolmentResponse(Answer):
    """`tuf_root` is the trusted root.json as text; `state_key` base64 of the raw Ed25519 public key."""

    device_id: str
    access_token: str
    tuf_root: str
    state_key: str


class EnrolmentTokenRequest(Message):
    """An operator asks for a token that lets `uses` devices in for `ttl_s` seconds."""

    uses: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    ttl_s: Annotated[int, Field(ge=60, le=30 * 86_400)] = 86_400
