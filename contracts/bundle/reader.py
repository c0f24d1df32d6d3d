"""Open a bundle in place: map the file, check every piece against the manifest, hand out views.

Invariants: nothing is handed out before the manifest's form, each piece's length, SHA-384 and build id were
checked; the ZIP holds exactly the manifest's pieces, stored, aligned; no piece is copied."""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import struct
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from contracts.bundle.errors import DamagedPiece, ForeignBundle, MissingPiece
from contracts.bundle.identity import check_build
from contracts.bundle.limits import LIMITS
from contracts.bundle.manifest import MANIFEST, Manifest
from contracts.bundle.writer import ALIGNMENT
from contracts.npu.program import DamagedProgram, Program, ProgramError
from contracts.npu.spec import chip_of

_REFETCH = "fetch the bundle again"


class Bundle:
    """A verified bundle. Keep it open as long as any view from it is in use."""

    def __init__(self, path: Path, view: memoryview, manifest: Manifest, pieces: dict[str, memoryview]) -> None:
        self.path = path
        self.manifest = manifest
        self._view = view
        self._pieces = pieces

    @staticmethod
    def open(path: Path | str) -> Bundle:
        """Map and verify; raises BundleError, or OSError when the file cannot be read."""
        path = Path(path)
        return Bundle.of(_map(path), path)

    @staticmethod
    def of(view: memoryview, path: Path) -> Bundle:
        """Verify bytes that lie in memory; `path` only names them. Raises BundleError."""
        try:
            spans = _spans(path, view)
        except (zipfile.BadZipFile, struct.error, UnicodeDecodeError, NotImplementedError) as error:
            raise ForeignBundle(path.name, f"not a readable bundle ({error})", _REFETCH) from error
        manifest = _manifest(path, spans)
        pieces = {name: _verified(manifest, name, spans) for name in manifest.pieces}
        extra = sorted(set(spans) - set(pieces) - {MANIFEST})
        if extra:
            raise DamagedPiece(extra[0], "not listed in the manifest", _REFETCH)
        return Bundle(path, view, manifest, pieces)

    def piece(self, name: str) -> memoryview:
        """The bytes of a piece, in place; raises :class:`MissingPiece`."""
        if name not in self._pieces:
            raise MissingPiece(name, f"not in bundle {self.path.name}", "build the bundle with this piece")
        return self._pieces[name]

    def json(self, name: str) -> dict[str, Any]:  # Any: JSON
        """A JSON piece as an object."""
        return cast("dict[str, Any]", json.loads(bytes(self.piece(name))))

    def program(self, target: str, name: str) -> Program:
        """The program ``model``, ``model-little`` or ``quality`` of a target; raises BundleError."""
        if target not in self.targets:
            known = ", ".join(self.targets) or "none"
            raise MissingPiece(f"{target}/{name}.npu", f"the bundle has targets {known}", f"build it for {target}")
        piece = f"{target}/{name}.npu"
        try:
            program = Program.open(self.piece(piece))
            if chip_of(program.target) != target:
                raise DamagedProgram(f"compiled for {program.target}, stored for {target}")
        except ProgramError as error:
            raise DamagedPiece(piece, str(error), "build the bundle again") from error
        return program

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Targets that have a program."""
        return tuple(sorted({name.split("/")[0] for name in self._pieces if name.endswith(".npu")}))

    @cached_property
    def meta(self) -> dict[str, Any]:  # Any: JSON
        """``meta.json``."""
        return self.json("meta.json")

    @cached_property
    def digest(self) -> str:
        """SHA-384 of the whole file, hexadecimal."""
        return hashlib.sha384(self._view).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self._view)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all pieces."""
        return tuple(self._pieces)


class _Window(io.RawIOBase):
    """Reads a view like a file, without a copy of the whole."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if start + offset < 0:
            raise OSError("before the beginning")  # what a file says; zipfile expects it
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = len(self._view) if size is None or size < 0 else self._at + size
        found = bytes(self._view[self._at : end])
        self._at += len(found)
        return found


def _map(path: Path) -> memoryview:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if not 0 < size <= LIMITS.file_bytes:
            raise ForeignBundle(path.name, f"{size} bytes, 1 to {LIMITS.file_bytes} are allowed", _REFETCH)
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _spans(path: Path, view: memoryview) -> dict[str, memoryview]:
    spans: dict[str, memoryview] = {}
    with zipfile.ZipFile(_Window(view)) as archive:
        entries = archive.infolist()
        if len(entries) > LIMITS.pieces + 1:
            raise ForeignBundle(path.name, f"{len(entries)} entries, at most {LIMITS.pieces} are allowed", _REFETCH)
        for entry in entries:
            name_length, extra_length = struct.unpack_from("<HH", view, entry.header_offset + 26)
            start = entry.header_offset + 30 + name_length + extra_length
            spans[entry.filename] = _span(view, entry, start, duplicate=entry.filename in spans)
    return spans


def _span(view: memoryview, entry: zipfile.ZipInfo, start: int, *, duplicate: bool) -> memoryview:
    if entry.compress_type != zipfile.ZIP_STORED or start % ALIGNMENT or duplicate:
        raise ForeignBundle(entry.filename, "compressed, misaligned or present twice", "write it with write_bundle")
    if start + entry.file_size > len(view):
        raise DamagedPiece(entry.filename, "reaches beyond the end of the file", _REFETCH)
    return view[start : start + entry.file_size]


def _manifest(path: Path, spans: dict[str, memoryview]) -> Manifest:
    if MANIFEST not in spans:
        raise ForeignBundle(path.name, "no manifest.json; this is not a bundle", "give an *.elb file")
    if len(spans[MANIFEST]) > LIMITS.manifest_bytes:
        raise ForeignBundle(MANIFEST, f"larger than {LIMITS.manifest_bytes} bytes", _REFETCH)
    return Manifest.parse(bytes(spans[MANIFEST]))


def _verified(manifest: Manifest, name: str, spans: dict[str, memoryview]) -> memoryview:
    record = manifest.pieces[name]
    if name not in spans:
        raise MissingPiece(name, "listed in the manifest, absent from the file", _REFETCH)
    data = spans[name]
    if len(data) != record.length:
        raise DamagedPiece(name, f"{len(data)} bytes, the manifest says {record.length}", _REFETCH)
    if hashlib.sha384(data).hexdigest() != record.sha384:
        raise DamagedPiece(name, "SHA-384 differs from the manifest", _REFETCH)
    check_build(name, data, manifest.build_id)
    return data
