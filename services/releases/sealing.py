"""Seals bundles and deltas for the way to devices, and keeps their content keys wrapped.

Every sealed file has a random content key of its own, which is stored once for each device class, wrapped by
AES-256-GCM under a key that is derived from the newest master key and the class. What a device gets is that key in an
envelope for its own trusted environment, for its own class, for this very file. A row that is gone cannot be handed
out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from contracts.bundle.sealed import BUNDLE_SUFFIX, KEY_BYTES, NONCE_BYTES, Head, Kind, parse_head, seal, unseal
from contracts.bundle.sealed import sealed_delta_path as delta_target
from services.releases.keys import KeyUnusable
from services.releases.models import BundleRow, ContentKey
from services.releases.tuf_repository import UpdateRepository
from services.releases.wrapping_keys import WrappingKeys

_CLASS_KEY = b"edgeloop-class-key-1\0"
_WRAP = b"edgeloop-content-key-wrap-1"
ROWS = 500


@dataclass(frozen=True)
class Sealed:
    """A target to publish and what it is called."""

    path: str
    data: bytes


class Sealing:
    """Content keys of one platform. Raises KeyUnusable when a master key is needed and not there."""

    def __init__(self, session: Session, keys: WrappingKeys) -> None:
        self._session, self._keys = session, keys

    def bundle(self, row: BundleRow, data: bytes) -> Sealed:
        """Seal a bundle; `row` tells digest, epoch and device classes."""
        head = Head(Kind.BUNDLE, row.digest, tuple(sorted(row.targets)), row.security_epoch, len(data))
        return self._sealed(f"bundles/{row.digest}{BUNDLE_SUFFIX}", head, data)

    def delta(self, row: BundleRow, base: str, delta: bytes) -> Sealed:
        """Seal a delta between plain bundles."""
        classes = tuple(sorted(row.targets))
        head = Head(Kind.DELTA, row.digest, classes, row.security_epoch, len(delta), base=base)
        return self._sealed(delta_target(row.digest, base), head, delta)

    def plain(self, repository: UpdateRepository, row: BundleRow) -> bytes | None:
        """The plain bytes of a registered bundle; None when it cannot be had (any more)."""
        data = repository.read_target(row.target_path)
        if data is None or not is_sealed(row):
            return data
        kept = self._session.scalars(select(ContentKey).where(ContentKey.path == row.target_path).limit(1)).first()
        return None if kept is None else unseal(self.content_key(kept), data)

    def content_key(self, row: ContentKey) -> bytes:
        """Unwrap. Raises KeyUnusable."""
        master = AESGCM(_class_key(self._keys.key(row.generation), row.device_class))
        try:
            return master.decrypt(row.wrapped[:NONCE_BYTES], row.wrapped[NONCE_BYTES:], _bound(row))
        except InvalidTag as error:
            raise KeyUnusable(
                f"content wrapping key generation {row.generation} is not the one that wrapped the key of {row.path}; "
                "restore the right one from the backup"
            ) from error

    def rewrap(self) -> int:
        """Wrap every content key under the newest generation; returns how many were moved."""
        newest, moved = self._newest(), 0
        older = select(ContentKey).where(ContentKey.generation != newest).limit(ROWS).with_for_update()
        while rows := self._session.scalars(older).all():
            for row in rows:
                self._wrap(row, self.content_key(row), newest)
            self._session.flush()
            moved += len(rows)
        return moved

    def counts(self) -> dict[int, int]:
        """How many content keys each generation wraps."""
        query = select(ContentKey.generation, func.count()).group_by(ContentKey.generation)
        return {row[0]: row[1] for row in self._session.execute(query)}

    def forget(self, digest: str) -> int:
        """Give the keys of a bundle, and of the deltas that lead to it, to nobody any more."""
        gone = self._session.execute(delete(ContentKey).where(ContentKey.digest == digest).returning(ContentKey.path))
        return len(gone.all())

    def _sealed(self, path: str, head: Head, data: bytes) -> Sealed:
        key, sealed = seal(head, data)
        clear, newest = sealed[: parse_head(sealed)[1]], self._newest()
        self._session.execute(delete(ContentKey).where(ContentKey.path == path))
        for device_class in head.classes:
            row = ContentKey(path=path, device_class=device_class, digest=head.digest, head=clear)
            self._wrap(row, key, newest)
            self._session.add(row)
        return Sealed(path, sealed)

    def _wrap(self, row: ContentKey, key: bytes, generation: int) -> None:
        row.generation = generation
        nonce = os.urandom(NONCE_BYTES)
        master = AESGCM(_class_key(self._keys.key(generation), row.device_class))
        row.wrapped = nonce + master.encrypt(nonce, key, _bound(row))

    def _newest(self) -> int:
        if not self._keys.generations:
            raise KeyUnusable("there is no content wrapping key; `edgeloop release keys rotate` makes one")
        return self._keys.generations[-1]


def is_sealed(row: BundleRow) -> bool:
    """Whether a registered bundle was published sealed."""
    return row.target_path.endswith(BUNDLE_SUFFIX)


def _class_key(master: bytes, device_class: str) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=_CLASS_KEY + device_class.encode()).derive(master)


def _bound(row: ContentKey) -> bytes:
    return b"\0".join((_WRAP, row.path.encode(), row.device_class.encode(), str(row.generation).encode(), row.head))
