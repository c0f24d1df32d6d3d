"""Which keys sign the device state document: a short list that is itself a target of the update repository.

So its trust comes from the TUF root, and an older list than the newest one is refused twice: by TUF's versions and by
`serial`. While one key follows another the list names both and every document carries both signatures; `until` ends
the old one on a device that does not hear of it. A key that ended is named with the epoch of the last document that it
signed: what a thief signed with a higher one was never ours, and must not hold a device up.

A list that says `public` only is of a platform that had one key; it is serial 0.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from contracts.state import public_key

STATE_KEY_TARGET = "state-key.json"
MAX_LIST_BYTES = 16 * 1024
MAX_KEYS = 4
MAX_ENDED = 64


class KeyListError(Exception):
    """The list is not to be believed; the message says why. The last good list stays in force."""


def _readable(text: str) -> str:
    public_key(text)
    return text


Public = Annotated[str, Field(min_length=44, max_length=44), AfterValidator(_readable)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class StateKey(_Model):
    """A key that is trusted, up to `until` (real seconds since 1970) where it is on its way out."""

    public: Public
    until: Annotated[int, Field(ge=0)] | None = None


class EndedKey(_Model):
    """A key that is trusted no more. `last_epoch`: of the last document that we signed with it."""

    public: Public
    last_epoch: Annotated[int, Field(ge=0)]


class StateKeyList(_Model):
    """All that a device needs to judge signatures. `serial` grows with every change."""

    serial: Annotated[int, Field(ge=0)]
    keys: Annotated[tuple[StateKey, ...], Field(min_length=1, max_length=MAX_KEYS)]
    ended: Annotated[tuple[EndedKey, ...], Field(max_length=MAX_ENDED)] = ()

    def trusted(self, now: float) -> tuple[Ed25519PublicKey, ...]:
        """The keys whose signature counts at `now`."""
        return tuple(public_key(one.public) for one in self.keys if one.until is None or now < one.until)

    def known(self) -> tuple[Ed25519PublicKey, ...]:
        """Every key that ever counted, for a document that was accepted then."""
        texts = [one.public for one in self.keys] + [one.public for one in self.ended]
        return tuple(public_key(text) for text in texts)


def encode_list(keys: StateKeyList) -> bytes:
    """The target's bytes. `public` is for readers that know of one key."""
    document = {"keytype": "ed25519", "public": keys.keys[0].public, **keys.model_dump(mode="json")}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode_list(data: bytes, min_serial: int = 0) -> StateKeyList:
    """Read a target's bytes. Raises KeyListError when they are too long, malformed or older than `min_serial`."""
    if len(data) > MAX_LIST_BYTES:
        raise KeyListError(f"the list of state keys has {len(data)} bytes, more than {MAX_LIST_BYTES}")
    try:
        raw: Any = json.loads(data)  # Any: JSON that nobody checked yet
        found = StateKeyList.model_validate(
            raw if "keys" in raw else {"serial": 0, "keys": [{"public": raw["public"]}]}
        )
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise KeyListError(f"the list of state keys is malformed: {type(error).__name__}") from error
    if found.serial < min_serial:
        raise KeyListError(f"the list of state keys has serial {found.serial}, older than {min_serial}")
    return found
