"""The ``*.npu`` program file: header, section table, then 128-byte aligned sections read in place.

Written specification: ``docs/reference/program.md``. Reading copies nothing: every array is a read-only view
of the caller's buffer. Invariants checked before anything is used: magic, format and arithmetic version,
total length, SHA-256 of everything after the header, sections inside the file, aligned and disjoint, command
streams that end with END and use nothing that their format lacks; errors are those of ``errors.py``.
A file says the oldest format that has all it uses, so that an old reader takes whatever it understands.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from contracts.npu.commands import (
    COMMAND,
    FLAG_DISPATCH,
    FLAG_GLOBAL,
    FLAG_HOST,
    FLAG_LAUNCH,
    FLAG_PER_CHANNEL,
    FLAG_RESIDUAL_FIRST,
    REGION,
    Layout,
    Op,
    PoolMode,
    Space,
    canonical_bytes,
)
from contracts.npu.errors import DamagedProgram, ForeignProgram, ProgramError, TruncatedProgram
from contracts.npu.profile import OutputTensor, Profile, StateTensor

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "COMMAND",
    "FLAG_DISPATCH",
    "FLAG_GLOBAL",
    "FLAG_HOST",
    "FLAG_LAUNCH",
    "FLAG_PER_CHANNEL",
    "FLAG_RESIDUAL_FIRST",
    "REGION",
    "DamagedProgram",
    "ForeignProgram",
    "Layout",
    "Op",
    "OutputTensor",
    "PoolMode",
    "Profile",
    "Program",
    "ProgramError",
    "ProgramWriter",
    "Section",
    "Space",
    "StateTensor",
    "TruncatedProgram",
]

MAGIC = b"ELNP"
FORMAT_VERSION = 4
RESIDUAL_FIRST_FORMAT = 3  # knows no section CODED
OLDEST_FORMAT = 2  # knows no FLAG_RESIDUAL_FIRST either
ARITHMETIC_VERSION = 1
ALIGNMENT = 128
MAX_SECTIONS = 256
_HEADER = struct.Struct("<4sHH16s16sIIQ32s")  # padded to 128 bytes
_SECTION = struct.Struct("<IIQQ")


class Section(IntEnum):
    """Kinds of section."""

    PROFILES = 1
    COMMANDS = 2
    NAMES = 3
    CONSTANTS = 4
    QUANT = 5
    CODED = 6


@dataclass(frozen=True)
class Program:
    """A program opened in place. ``commands[i]`` belongs to ``profiles[i]``.

    Where the file holds its constants entropy-coded, ``coded`` is that section and ``constants`` is empty: whoever uses
    constants decodes them first (:meth:`with_constants`); ``decoded`` then says how many bytes that gave.
    """

    target: str
    build_id: bytes
    profiles: tuple[Profile, ...]
    names: tuple[str, ...]
    constants: npt.NDArray[np.uint8]
    quant: npt.NDArray[np.uint8]
    _streams: tuple[npt.NDArray[np.void], ...]
    coded: npt.NDArray[np.uint8] | None = None
    decoded: int = 0

    @staticmethod
    def open(buffer: Buffer) -> Program:
        """Check and map ``buffer`` (any object with the buffer protocol); raises :class:`ProgramError`."""
        return _open(memoryview(buffer).cast("B"))

    def commands(self, profile: int | str) -> npt.NDArray[np.void]:
        """Read-only COMMAND array of a profile (index or name), END included."""
        return self._streams[self.profile_index(profile)]

    def with_constants(self, constants: npt.NDArray[np.uint8]) -> Program:
        """The same program with its coded constants decoded."""
        return replace(self, constants=constants, coded=None, decoded=len(constants))

    def profile_index(self, profile: int | str) -> int:
        """Index of a profile given by index or name; raises KeyError naming the known ones."""
        names = [entry.name for entry in self.profiles]
        if isinstance(profile, int) and 0 <= profile < len(names):
            return profile
        if profile in names:
            return names.index(str(profile))
        raise KeyError(f"program has no profile {profile!r}; it has {', '.join(names)}")


class ProgramWriter:
    """Collects the parts of a program and lays them out; same parts, same bytes."""

    def __init__(self, target: str, build_id: bytes) -> None:
        if len(target.encode()) > 16 or len(build_id) != 16:
            raise ValueError("target name has at most 16 bytes, build_id exactly 16")
        self._target = target
        self._build_id = build_id
        self._profiles: list[Profile] = []
        self._streams: list[npt.NDArray[np.void]] = []

    def add_profile(self, profile: Profile, commands: npt.NDArray[np.void]) -> None:
        """Append a profile with its command stream (END included)."""
        if commands.dtype != COMMAND or len(commands) == 0 or commands[-1]["op"] != Op.END:
            raise ValueError(f"profile {profile.name}: the stream must be a COMMAND array that ends with END")
        self._profiles.append(profile)
        self._streams.append(commands)

    def to_bytes(self, names: Sequence[str], constants: bytes, quant: bytes, *, coded: bool = False) -> bytes:
        """The whole file; with ``coded`` the given constants are entropy-coded already."""
        sections: list[tuple[Section, int, bytes]] = [
            (Section.PROFILES, 0, _json([asdict(profile) for profile in self._profiles])),
            *((Section.COMMANDS, index, canonical_bytes(stream)) for index, stream in enumerate(self._streams)),
            (Section.NAMES, 0, _json(list(names))),
            (Section.CODED if coded else Section.CONSTANTS, 0, constants),
            (Section.QUANT, 0, quant),
        ]
        offset = _align(ALIGNMENT + len(sections) * _SECTION.size)
        table, body = bytearray(), bytearray()
        for kind, profile, data in sections:
            table += _SECTION.pack(kind, profile, offset + len(body), len(data))
            body += data + bytes(_align(len(data)) - len(data))
        payload = bytes(table).ljust(offset - ALIGNMENT, b"\0") + bytes(body)
        header = _HEADER.pack(
            MAGIC,
            FORMAT_VERSION if coded else max(map(_format_of, self._streams), default=OLDEST_FORMAT),
            ARITHMETIC_VERSION,
            self._target.encode(),
            self._build_id,
            len(sections),
            0,
            ALIGNMENT + len(payload),
            hashlib.sha256(payload).digest(),
        )
        return header.ljust(ALIGNMENT, b"\0") + payload


def _open(view: memoryview) -> Program:
    version, target, build_id, count = _check_header(view)
    sections = _section_table(view, count)
    profiles = tuple(Profile.parse(raw) for raw in _list(sections, Section.PROFILES))
    streams = tuple(_stream(sections, index, version) for index in range(len(profiles)))
    coded = (Section.CODED, 0) in sections
    if coded and (version < FORMAT_VERSION or (Section.CONSTANTS, 0) in sections):
        raise DamagedProgram(
            f"program: coded constants in format {version} or beside plain ones; compile the model again"
        )
    return Program(
        target=target,
        build_id=build_id,
        profiles=profiles,
        names=tuple(str(name) for name in _list(sections, Section.NAMES)),
        constants=np.empty(0, np.uint8) if coded else _bytes(sections, Section.CONSTANTS),
        quant=_bytes(sections, Section.QUANT),
        _streams=streams,
        coded=_bytes(sections, Section.CODED) if coded else None,
    )


def _check_header(view: memoryview) -> tuple[int, str, bytes, int]:
    if len(view) < ALIGNMENT:
        raise TruncatedProgram(f"program: {len(view)} bytes, a header has {ALIGNMENT}; fetch the file again")
    magic, version, arithmetic, target, build_id, count, _, total, digest = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise ForeignProgram(f"program: magic {magic!r} is not {MAGIC!r}; this is not an NPU program")
    if not OLDEST_FORMAT <= version <= FORMAT_VERSION or arithmetic != ARITHMETIC_VERSION:
        raise ForeignProgram(
            f"program: format {version}, arithmetic {arithmetic}; this code reads {OLDEST_FORMAT} to {FORMAT_VERSION} "
            f"and {ARITHMETIC_VERSION}; compile the model with a matching compiler"
        )
    if len(view) < total:
        raise TruncatedProgram(f"program: {len(view)} of {total} bytes; fetch the file again")
    if len(view) > total or count > MAX_SECTIONS:
        raise DamagedProgram(f"program: {len(view)} bytes for {total}, {count} sections; fetch the file again")
    if hashlib.sha256(view[ALIGNMENT:]).digest() != digest:
        raise DamagedProgram("program: SHA-256 of the content differs from the header; fetch the file again")
    return version, target.rstrip(b"\0").decode("utf-8", "replace"), build_id, count


def _section_table(view: memoryview, count: int) -> dict[tuple[int, int], memoryview]:
    end = ALIGNMENT + count * _SECTION.size
    if end > len(view):
        raise DamagedProgram(f"program: a table of {count} sections does not fit; compile the model again")
    sections: dict[tuple[int, int], memoryview] = {}
    for index in range(count):
        kind, profile, offset, length = _SECTION.unpack_from(view, ALIGNMENT + index * _SECTION.size)
        if offset % ALIGNMENT or offset < end or offset + length > len(view) or (kind, profile) in sections:
            raise DamagedProgram(
                f"program section {index} (kind {kind}): offset {offset}, length {length} is misaligned, "
                "overlaps another or leaves the file; compile the model again"
            )
        sections[kind, profile] = view[offset : offset + length].toreadonly()
        end = offset + length
    return sections


def _section(sections: dict[tuple[int, int], memoryview], kind: Section, profile: int = 0) -> memoryview:
    if (kind, profile) not in sections:
        raise DamagedProgram(f"program: section {kind.name} of profile {profile} is missing; compile the model again")
    return sections[kind, profile]


def _bytes(sections: dict[tuple[int, int], memoryview], kind: Section) -> npt.NDArray[np.uint8]:
    return np.frombuffer(_section(sections, kind), dtype=np.uint8)


def _list(sections: dict[tuple[int, int], memoryview], kind: Section) -> list[Any]:  # Any: JSON
    try:
        value = json.loads(bytes(_section(sections, kind)))
    except (ValueError, RecursionError) as error:
        raise DamagedProgram(f"program section {kind.name}: {error}; compile the model again") from error
    if not isinstance(value, list):
        raise DamagedProgram(f"program section {kind.name}: a list is expected; compile the model again")
    return value


def _stream(sections: dict[tuple[int, int], memoryview], profile: int, version: int) -> npt.NDArray[np.void]:
    data = _section(sections, Section.COMMANDS, profile)
    if len(data) == 0 or len(data) % COMMAND.itemsize:
        raise DamagedProgram(f"program section COMMANDS of profile {profile}: {len(data)} bytes is no whole stream")
    stream = np.frombuffer(data, dtype=COMMAND)
    if stream[-1]["op"] != Op.END:
        raise DamagedProgram(f"program section COMMANDS of profile {profile}: no END; compile the model again")
    if _format_of(stream) > version:
        raise DamagedProgram(
            f"program section COMMANDS of profile {profile}: a residual that comes first in format {version}; "
            "compile the model again"
        )
    return stream


def _format_of(stream: npt.NDArray[np.void]) -> int:
    """The oldest format that has all that a stream uses."""
    return RESIDUAL_FIRST_FORMAT if (stream["flags"] & FLAG_RESIDUAL_FIRST).any() else OLDEST_FORMAT


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _align(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT
