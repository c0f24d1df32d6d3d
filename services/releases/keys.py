"""Signing keys behind one small interface, so that a KMS or an HSM can stand in for the files.

`FileKeyStore` makes each key on first use: Ed25519, PEM, mode 0600, never overwritten. A key file that others can
read is refused. Two processes that start at once agree on one key (the file appears by an exclusive link).
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner, Signer

ROLES = ("root", "targets", "snapshot", "timestamp")
STATE = "state"


class KeyUnusable(Exception):
    """A signing key cannot be used; the message says which and what to do."""


class KeyStore(Protocol):
    """Gives signers; where the private key lives is the store's own affair."""

    def signer(self, role: str) -> Signer:
        """The signer of a TUF role; raises KeyUnusable."""

    def state_key(self) -> Ed25519PrivateKey:
        """The key that signs the device state document; raises KeyUnusable."""

    def next_state_key(self, make: bool = False) -> Ed25519PrivateKey | None:
        """The key that will follow it; None when none was made and none is to be made. Raises KeyUnusable."""

    def drop_next_state_key(self) -> None:
        """Destroy the key that was to follow."""

    def next_signer(self, role: str, make: bool = False) -> Signer | None:
        """The key that will follow; None when none was made and none is to be made. Raises KeyUnusable."""

    def promote(self, role: str) -> None:
        """Let the next key take the place of the present one, which is gone for ever. Raises KeyUnusable."""


class FileKeyStore:
    """Keys as files in one folder of the platform's state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def signer(self, role: str) -> Signer:
        return CryptoSigner(self._key(role))

    def state_key(self) -> Ed25519PrivateKey:
        return self._key(STATE)

    def next_state_key(self, make: bool = False) -> Ed25519PrivateKey | None:
        return self._next_key(STATE, make)

    def drop_next_state_key(self) -> None:
        with _writing(self._folder):
            self._next(STATE).unlink(missing_ok=True)

    def next_signer(self, role: str, make: bool = False) -> Signer | None:
        found = self._next_key(role, make)
        return CryptoSigner(found) if found is not None else None

    def promote(self, role: str) -> None:
        with _writing(self._folder):
            os.replace(self._next(role), self._folder / f"{role}.pem")

    def _next_key(self, role: str, make: bool) -> Ed25519PrivateKey | None:
        path = self._next(role)
        if make and not path.exists():
            with _writing(self._folder):
                _create(path)
        return _load(path) if path.exists() else None

    def _next(self, role: str) -> Path:
        if role not in (*ROLES, STATE):
            raise ValueError(f"no key of role {role!r} can be rotated; known: {', '.join((*ROLES, STATE))}")
        return self._folder / f"{role}.next.pem"

    def _key(self, name: str) -> Ed25519PrivateKey:
        if name not in (*ROLES, STATE):
            raise ValueError(f"no key has the name {name!r}; known: {', '.join((*ROLES, STATE))}")
        path = self._folder / f"{name}.pem"
        if not path.exists():
            _create(path)
        return _load(path)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say what to do where keys cannot be written, as from a secret that is mounted for reading."""
    try:
        yield
    except OSError as error:
        raise KeyUnusable(
            f"keys in {folder} cannot be changed here ({error.strerror}); rotate where the folder can be written, or "
            "put the next key there by hand"
        ) from error


def _load(path: Path) -> Ed25519PrivateKey:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise KeyUnusable(f"signing key {path} has mode {mode:04o}: others could read it; chmod 600 it")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except ValueError as error:
        raise KeyUnusable(f"signing key {path} is not a PEM key; restore it from the backup") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyUnusable(f"signing key {path} is not an Ed25519 key; restore it from the backup")
    return key


def _create(path: Path) -> None:
    """Write a new key; when another process was faster its key stays."""
    write_once(path, Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_once(path: Path, text: bytes) -> None:
    """Write a secret file (mode 0600) that was not there; when another process was faster its file stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
    finally:
        Path(temporary).unlink()
