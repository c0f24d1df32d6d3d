"""The update repository: TUF metadata (consistent snapshots) and targets in the object store.

Publication order is targets, snapshot, timestamp; replacing `timestamp.json` is the commit, so a crash at any point
leaves the old metadata valid and a retry overwrites what nobody referred to yet. Callers hold the repository's
lock (one writer); readers need none.

Invariants: versions only grow; nothing is served that was not signed; expiry uses real time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp

from services.releases.keys import ROLES, KeyStore
from services.releases.limits import METADATA

TIMESTAMP = "timestamp.json"
_NAME = re.compile(r"^(timestamp|[1-9][0-9]{0,9}\.(root|snapshot|targets))\.json$")
_LIFE = {
    "root": METADATA.root_s,
    "targets": METADATA.targets_s,
    "snapshot": METADATA.snapshot_s,
    "timestamp": METADATA.timestamp_s,
}
R = TypeVar("R", Root, Targets, Snapshot, Timestamp)
Custom = Mapping[str, str | int]


class Objects(Protocol):
    """The part of the object store that the repository uses."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes: ...

    def exists(self, key: str) -> bool: ...


class RepositoryError(Exception):
    """The repository cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class _Current:
    timestamp: Metadata[Timestamp]
    snapshot: Metadata[Snapshot]
    targets: Metadata[Targets]


def _real_now() -> datetime:
    return datetime.now(UTC)


class UpdateRepository:
    """Reads and writes one repository. `now` gives real time."""

    def __init__(self, objects: Objects, keys: KeyStore, now: Callable[[], datetime] = _real_now) -> None:
        self._objects = objects
        self._keys = keys
        self._now = now

    def exists(self) -> bool:
        """Whether the repository has been created."""
        return self._objects.exists(metadata_key(TIMESTAMP))

    def create(self) -> None:
        """Sign version 1 of every role; nothing happens when the repository exists."""
        if self.exists():
            return
        root = self._new(Root(consistent_snapshot=True, expires=self._expires("root")))
        for role in ROLES:
            root.signed.add_key(self._keys.signer(role).public_key, role)
        self._write(root, "1.root.json", "root")
        targets = Metadata(Targets(expires=self._expires("targets")))
        snapshot = Metadata(Snapshot(expires=self._expires("snapshot")))
        self._commit(_Current(Metadata(Timestamp(expires=self._expires("timestamp"))), snapshot, targets))

    def root(self) -> bytes:
        """The newest root: what a device is given to trust."""
        return self._objects.get(metadata_key(f"{self._root_version()}.root.json"))

    def rotate(self, role: str) -> int:
        """Replace the key of `role`; returns the version of the root that names the new one alone.

        Two roots: one names both keys, then everything is signed anew, then one names the new key alone. So what a
        device sees is valid at every moment, and a rotation that was cut short is finished by the next `rotate` or
        `refresh`. A new root key is vouched for by the root that the old one signed.
        """
        fresh = self._keys.next_signer(role, make=True)
        assert fresh is not None
        root = self._newest_root()
        if fresh.public_key.keyid not in root.signed.roles[role].keyids:
            root.signed.add_key(fresh.public_key, role)
            self._publish_root(root)
        self._keys.promote(role)
        return self._finish(role)

    def _finish(self, role: str) -> int:
        """Sign everything by the present keys, then name the key of `role` alone in a new root."""
        self._sign_all()
        root, present = self._newest_root(), self._keys.signer(role).public_key.keyid
        for keyid in [known for known in root.signed.roles[role].keyids if known != present]:
            root.signed.revoke_key(keyid, role)
        return self._publish_root(root)

    def _sign_all(self) -> None:
        current = self._current()
        for role in ("targets", "snapshot", "timestamp"):
            self._bump(getattr(current, role), role)
        self._commit(current)

    def _finish_rotations(self) -> None:
        """Go on with rotations that were cut short."""
        for role in [role for role in ROLES if self._keys.next_signer(role) is not None]:
            self.rotate(role)
        named = self._newest_root().signed.roles
        for role in [role for role in ROLES if len(named[role].keyids) > 1]:
            self._finish(role)

    def _root_version(self) -> int:
        version = 1
        while self._objects.exists(metadata_key(f"{version + 1}.root.json")):
            version += 1
        return version

    def _newest_root(self) -> Metadata[Root]:
        return Metadata.from_bytes(self.root())

    def _publish_root(self, root: Metadata[Root]) -> int:
        root.signed.version += 1
        root.signed.expires = self._expires("root")
        root.sign(self._keys.signer("root"))
        self._objects.put(metadata_key(f"{root.signed.version}.root.json"), root.to_bytes())
        return root.signed.version

    def add_target(self, path: str, data: bytes, custom: Custom) -> str:
        """Publish a target and return the key of its object; the same bytes twice publish once."""
        target = TargetFile.from_data(path, data, ["sha256"])
        target.unrecognized_fields["custom"] = dict(custom)
        key = target_key(path, target.hashes["sha256"])
        current = self._current()
        if current.targets.signed.targets.get(path) == target:
            return key
        self._objects.put(key, data)
        current.targets.signed.targets[path] = target
        self._bump(current.targets, "targets")
        self._bump(current.snapshot, "snapshot")
        self._bump(current.timestamp, "timestamp")
        self._commit(current)
        return key

    def refresh(self) -> tuple[str, ...]:
        """Sign again what has lived half of its life, and finish rotations; gives the roles that were renewed."""
        self._finish_rotations()
        root = self._newest_root()
        if root.signed.expires - self._now() < timedelta(seconds=_LIFE["root"] / 2):
            self._publish_root(root)
        current = self._current()
        renewed = [role for role in ("targets", "snapshot", "timestamp") if self._aged(current, role)]
        if not renewed:
            return ()
        first = ("targets", "snapshot", "timestamp").index(renewed[0])
        chain = ("targets", "snapshot", "timestamp")[first:]
        for role in chain:
            self._bump(getattr(current, role), role)
        self._commit(current)
        return chain

    def read_target(self, path: str) -> bytes | None:
        """The bytes of a target that the current metadata name; None for one that they do not."""
        target = self.target(path)
        return None if target is None else self._objects.get(target_key(path, target.hashes["sha256"]))

    def target(self, path: str) -> TargetFile | None:
        """What the current metadata say of a target."""
        return self._current().targets.signed.targets.get(path)

    def metadata(self, name: str) -> bytes:
        """One metadata file; raises ObjectMissing, ValueError for a name that no metadata file has."""
        if len(name) > METADATA.name_chars or not _NAME.match(name):
            raise ValueError(f"{name!r} is not the name of a metadata file")
        return self._objects.get(metadata_key(name))

    def _current(self) -> _Current:
        timestamp = self._read(TIMESTAMP, "timestamp")
        version = timestamp.signed.snapshot_meta.version
        snapshot = self._read(f"{version}.snapshot.json", "snapshot")
        version = snapshot.signed.meta["targets.json"].version
        return _Current(timestamp, snapshot, self._read(f"{version}.targets.json", "targets"))

    def _commit(self, current: _Current) -> None:
        targets, snapshot, timestamp = current.targets, current.snapshot, current.timestamp
        self._write(targets, f"{targets.signed.version}.targets.json", "targets")
        snapshot.signed.meta["targets.json"] = MetaFile(version=targets.signed.version)
        data = self._write(snapshot, f"{snapshot.signed.version}.snapshot.json", "snapshot")
        timestamp.signed.snapshot_meta = MetaFile.from_data(snapshot.signed.version, data, ["sha256"])
        self._write(timestamp, TIMESTAMP, "timestamp")

    def _write(self, metadata: Metadata[R], name: str, role: str) -> bytes:
        metadata.sign(self._keys.signer(role))
        data: bytes = metadata.to_bytes()
        if len(data) > METADATA.metadata_bytes:
            raise RepositoryError(f"{name} would have {len(data)} bytes, at most {METADATA.metadata_bytes}")
        self._objects.put(metadata_key(name), data)
        return data

    def _read(self, name: str, role: str) -> Any:  # Any: Metadata of the role's type
        metadata: Metadata[Any] = Metadata.from_bytes(self._objects.get(metadata_key(name)))
        present, signed_by = self._keys.signer(role).public_key.keyid, set(metadata.signatures)
        if present not in signed_by and not self._being_rotated(role, present, signed_by):
            raise RepositoryError(
                f"{name} in the object store was signed by another {role} key than the one in use; "
                "restore the signing keys that belong to this object store"
            )
        return metadata

    def _being_rotated(self, role: str, present: str, signed_by: set[str]) -> bool:
        """Whether the newest root names both the present key and one that signed."""
        named = set(self._newest_root().signed.roles[role].keyids)
        return present in named and bool(named & signed_by)

    def _bump(self, metadata: Metadata[R], role: str) -> None:
        metadata.signed.version += 1
        metadata.signed.expires = self._expires(role)

    def _aged(self, current: _Current, role: str) -> bool:
        left: timedelta = getattr(current, role).signed.expires - self._now()
        return left < timedelta(seconds=_LIFE[role] / 2)

    def _expires(self, role: str) -> datetime:
        return (self._now() + timedelta(seconds=_LIFE[role])).replace(microsecond=0)

    @staticmethod
    def _new(signed: Root) -> Metadata[Root]:
        return Metadata(signed)


def metadata_key(name: str) -> str:
    """Key of a metadata file in the object store."""
    return f"tuf/metadata/{name}"


def target_key(path: str, sha256: str) -> str:
    """Key of a target's bytes, named the way a TUF client asks with consistent snapshots."""
    folder, slash, name = path.rpartition("/")
    return f"tuf/targets/{folder}{slash}{sha256}.{name}"
