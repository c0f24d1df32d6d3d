"""Write a bundle: a ZIP without compression, fixed timestamps, data of each piece 128-byte aligned.

Invariants: same pieces and fields give the same bytes; the file appears whole or not at all (temporary name,
flush, fsync, rename, fsync of the folder)."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from contracts.bundle.identity import check_build
from contracts.bundle.manifest import MANIFEST, Manifest, PieceRecord

ALIGNMENT = 128
_LOCAL_HEADER = 30
_EXTRA_HEADER = 4
_EXTRA_ID = 0xE1B0  # private padding field, ignored by every ZIP reader
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_bundle(
    path: Path, pieces: Mapping[str, bytes], *, build_id: bytes, release_version: str, security_epoch: int
) -> Manifest:
    """Write ``pieces`` (name -> bytes) to ``path``; raises BundleError for a bad name or a piece of another
    build.
    """
    records = {name: PieceRecord.of(pieces[name]) for name in sorted(pieces)}
    manifest = Manifest(build_id.hex(), release_version, security_epoch, records)
    manifest.check()
    for name in records:
        check_build(name, pieces[name], manifest.build_id)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _write_zip(stream, {MANIFEST: manifest.to_bytes(), **{name: pieces[name] for name in records}})
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return manifest


def _write_zip(stream: BinaryIO, pieces: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in pieces.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            entry.extra = _padding(stream.tell() + _LOCAL_HEADER + len(name.encode()))
            archive.writestr(entry, data)


def _padding(data_offset: int) -> bytes:
    length = -(data_offset + _EXTRA_HEADER) % ALIGNMENT
    return struct.pack("<HH", _EXTRA_ID, length) + bytes(length)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
