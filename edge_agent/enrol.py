"""Joining: a one-time token buys an identity and the roots of trust, once.

The device makes an Ed25519 key (mode 0600) before it asks, so a repeated try uses the same key. The
identity file (mode 0600) holds the access token, the trusted TUF root, the state document's key and a
secret that only derives daily pseudonyms and never leaves the device.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import ValidationError

from contracts.device import DeviceTags
from contracts.state import public_key, public_text
from contracts.wire import EnrolmentRequest, EnrolmentResponse
from contracts.wire.enrolment import enrolment_proof
from edge_agent import __version__
from edge_agent.disk import Disk
from edge_agent.errors import EnrolmentError, Refused
from edge_agent.limits import LIMITS
from edge_agent.transport import Transport

KEY_FILE = "device.key"
IDENTITY_FILE = "identity.json"
ROUTE = "/releases/v1/enrolments"
PRIVATE = 0o600


@dataclass(frozen=True)
class Identity:
    """Who this device is to the platform, and whom it trusts. Secrets are kept out of `repr`."""

    device_id: str
    access_token: str = field(repr=False)
    tuf_root: str = field(repr=False)
    state_key: str
    secret: str = field(repr=False)

    @property
    def joined(self) -> bool:
        """False for a device that only plays."""
        return bool(self.access_token)

    def pseudonym(self, day: int, embedding_id: str) -> str:
        """Return the name for one day: 32 hex digits that nobody can join with another day's."""
        return self._derive(f"pseudonym/{day}/{embedding_id}")[:16].hex()

    def delay(self, day: int, embedding_id: str) -> float:
        """Return 0..1: how long this device lets the report of a day wait, in shares of the time allowed."""
        return int.from_bytes(self._derive(f"delay/{day}/{embedding_id}")[:8]) / 2**64

    @property
    def report_key(self) -> bytes:
        """Key of the MAC on daily reports."""
        return self._derive("drf1")

    def _derive(self, purpose: str) -> bytes:
        return hmac.new(bytes.fromhex(self.secret), purpose.encode(), hashlib.sha256).digest()


def load_identity(folder: Path) -> Identity | None:
    """Return the stored identity, or None when the device never joined. Raises EnrolmentError when
    damaged.
    """
    path = folder / IDENTITY_FILE
    try:
        raw = json.loads(path.read_bytes()[: LIMITS.identity_bytes])
        return Identity(**raw)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise EnrolmentError(f"{path} is not readable ({error}); remove it and enrol again with a new token") from error


def enrol(folder: Path, transport: Transport, token: str, tags: DeviceTags, disk: Disk, running: str = "") -> Identity:
    """Join and store the identity; a device that joined before keeps its identity and uses no token."""
    known = load_identity(folder)
    if known is not None:
        return known
    disk.make_directory(folder)
    key = device_key(folder, disk)
    try:
        public = public_text(key.public_key())
        request = EnrolmentRequest(
            token=token,
            public_key=public,
            proof=base64.b64encode(key.sign(enrolment_proof(token, public))).decode(),
            tags=tags,
            agent_version=__version__,
            running_digest=running,
        )
    except ValidationError as error:
        raise EnrolmentError("the enrolment token is not of the right form; ask an operator for a new one") from error
    try:
        answer = transport.post(ROUTE, request.model_dump_json().encode())
    except Refused as error:
        raise EnrolmentError(
            f"enrolment refused ({error.status}): the token is wrong, used up or expired; ask for a new one"
        ) from error
    identity = _identity_from(answer.body)
    disk.replace(folder / IDENTITY_FILE, json.dumps(asdict(identity), sort_keys=True).encode(), PRIVATE)
    return identity


def lone_identity(folder: Path, disk: Disk) -> Identity:
    """Return the identity of a device without a platform. It is not stored: the device may join later."""
    disk.make_directory(folder)
    return Identity(device_id="alone", access_token="", tuf_root="", state_key="", secret=os.urandom(32).hex())


def device_key(folder: Path, disk: Disk) -> Ed25519PrivateKey:
    """Return this device's key, making it on first use."""
    return stored_key(folder / KEY_FILE, disk)


def stored_key(path: Path, disk: Disk) -> Ed25519PrivateKey:
    """Return the key at `path`, making it when there is none. Raises EnrolmentError when it is damaged."""
    try:
        key = load_pem_private_key(disk.read(path, LIMITS.identity_bytes), None)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        disk.replace(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), PRIVATE)
    except ValueError as error:
        raise EnrolmentError(f"{path} is not a key ({error}); remove it and enrol again") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise EnrolmentError(f"{path} is not an Ed25519 key; remove it and enrol again")
    return key


def _identity_from(body: bytes) -> Identity:
    try:
        response = EnrolmentResponse.model_validate_json(body)
        public_key(response.state_key)
        json.loads(response.tuf_root)
    except ValueError as error:
        raise EnrolmentError("the platform's enrolment answer is malformed; nothing was stored") from error
    return Identity(
        device_id=response.device_id,
        access_token=response.access_token,
        tuf_root=response.tuf_root,
        state_key=response.state_key,
        secret=os.urandom(32).hex(),
    )
