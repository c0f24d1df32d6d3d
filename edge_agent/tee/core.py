"""The secrets of one device and what is done with them.

A real trusted environment has its keys in fuses and its floor in a replay-protected memory block; the emulated one
keeps both in one file (mode 0600) of a folder that only its process reads. Invariants: private keys leave this object
only into that file; a bundle is opened only for a class that this chip has, of an epoch that is not below the floor,
and only when its SHA-384 is the one in its authenticated head; the floor never sinks and lasts before it is answered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from contracts.bundle.delta import DeltaError, apply_delta
from contracts.bundle.envelopes import EnvelopeError, binding, open_envelope
from contracts.bundle.sealed import (
    Head,
    Kind,
    SealedError,
    is_sealed,
    parse_head,
    store,
    stored_head,
    unseal,
    unstore,
)
from contracts.diagnostics import SIGNATURE_DOMAIN
from edge_agent.disk import Disk
from edge_agent.tee.errors import TeeRefused, Why
from edge_agent.tee.face import PublicKeys

FILE = "tee.json"
FORMAT = 1
PRIVATE = 0o600
FILE_BYTES = 4_096
SIGNED_BYTES = 4_096
MOST_EPOCH = 2**31
DOMAIN = SIGNATURE_DOMAIN


class Tee:
    """One device's secrets. Not for several threads: the process asks one thing at a time."""

    def __init__(self, folder: Path, classes: Sequence[str], disk: Disk | None = None) -> None:
        """Load the secrets, or make them on first use; what the chip was made for counts, whatever `classes` say later.

        Raises TeeRefused when the secrets are damaged or of another chip.
        """
        self._path, self._disk = folder / FILE, disk or Disk()
        self._classes = tuple(sorted(classes))
        self._floor = 0
        self._disk.make_directory(folder)
        try:
            self._load()
        except FileNotFoundError:
            self._make()

    def public(self) -> PublicKeys:
        sealing, signing = self._sealing.public_key(), self._signing.public_key()
        return PublicKeys(sealing.public_bytes_raw(), signing.public_bytes_raw())

    def admit(self, sealed: bytes, envelope: bytes, device_class: str, base: bytes = b"") -> bytes:
        head, clear = _parsed(sealed)
        if head.kind is Kind.STORED:
            raise TeeRefused(Why.MALFORMED, "a stored bundle is opened, not admitted")
        if device_class not in self._classes or device_class not in head.classes:
            raise TeeRefused(Why.WRONG_CLASS, f"for {', '.join(head.classes)}; asked as {device_class}")
        self._check_epoch(head)
        try:
            key = open_envelope(envelope, self._sealing, binding(bytes(sealed[:clear]), device_class))
            plain = unseal(key, sealed)
        except (EnvelopeError, SealedError) as error:
            raise TeeRefused(Why.WRONG_KEY, str(error)) from error
        if head.kind is Kind.DELTA:
            plain = self._joined(head, plain, base)
        _check_digest(head, plain)
        return store(self._storage, stored_head(head, len(plain)), plain)

    def open(self, stored: bytes) -> memoryview:
        head, _ = _parsed(stored)
        self._check_epoch(head)
        plain = self._unstored(stored)
        _check_digest(head, plain)
        return memoryview(plain)

    def raise_floor(self, epoch: int) -> int:
        if not 0 <= epoch <= MOST_EPOCH:
            raise TeeRefused(Why.MALFORMED, f"{epoch} is no security epoch")
        if epoch > self._floor:
            self._write(epoch)
            self._floor = epoch
        return self._floor

    def sign(self, message: bytes) -> bytes:
        if len(message) > SIGNED_BYTES:
            raise TeeRefused(Why.MALFORMED, f"{len(message)} bytes to sign, at most {SIGNED_BYTES} are allowed")
        return self._signing.sign(DOMAIN + message)

    def _joined(self, head: Head, delta: bytes, base: bytes) -> bytes:
        before: bytes = self._unstored(base) if is_sealed(base) else base
        if hashlib.sha384(before).hexdigest() != head.base:
            raise TeeRefused(Why.DAMAGED, "the delta starts from another bundle")
        try:
            return apply_delta(before, delta)
        except DeltaError as error:
            raise TeeRefused(Why.DAMAGED, f"the delta does not lead to its bundle: {error}") from error

    def _unstored(self, stored: bytes) -> bytes:
        try:
            return unstore(self._storage, stored)
        except SealedError as error:
            raise TeeRefused(Why.DAMAGED, str(error)) from error

    def _check_epoch(self, head: Head) -> None:
        if head.security_epoch < self._floor:
            raise TeeRefused(Why.OLD_EPOCH, f"security epoch {head.security_epoch} is below the floor {self._floor}")

    def _make(self) -> None:
        self._sealing, self._signing = X25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        self._storage = os.urandom(32)
        self._write(0)

    def _write(self, floor: int) -> None:
        body: dict[str, object] = {
            "format": FORMAT,
            "classes": list(self._classes),
            "sealing": self._sealing.private_bytes_raw().hex(),
            "signing": self._signing.private_bytes_raw().hex(),
            "storage": self._storage.hex(),
            "floor": floor,
        }
        body["check"] = _check(body)
        self._disk.replace(self._path, json.dumps(body).encode(), PRIVATE)

    def _load(self) -> None:
        try:
            raw = json.loads(self._disk.read(self._path, FILE_BYTES))
            if raw["format"] != FORMAT or raw.pop("check") != _check(raw):
                raise ValueError("its check does not fit")
            self._sealing = X25519PrivateKey.from_private_bytes(bytes.fromhex(raw["sealing"]))
            self._signing = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(raw["signing"]))
            self._storage, self._floor = bytes.fromhex(raw["storage"]), int(raw["floor"])
            classes = tuple(raw["classes"])
        except (KeyError, TypeError, ValueError) as error:
            raise TeeRefused(Why.BROKEN, "its secrets are damaged; the device has to be provisioned again") from error
        if not set(classes) & set(self._classes):
            raise TeeRefused(Why.WRONG_CLASS, f"made for {', '.join(classes)}, started as {', '.join(self._classes)}")
        self._classes = classes


def _parsed(sealed: bytes) -> tuple[Head, int]:
    try:
        return parse_head(sealed)
    except SealedError as error:
        raise TeeRefused(Why.DAMAGED, str(error)) from error


def _check_digest(head: Head, plain: bytes) -> None:
    if hashlib.sha384(plain).hexdigest() != head.digest:
        raise TeeRefused(Why.DAMAGED, "the SHA-384 of the bundle is not the one in its head")


def _check(body: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
