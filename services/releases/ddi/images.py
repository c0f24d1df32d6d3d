"""Update images that hold a bundle: the cpio archives (.swu) that SWUpdate devices install.

SWUpdate takes nothing but its own signed archive, and the key that signs it belongs to who builds the devices. So an
operator wraps a registered bundle, signs it and hands it in. What is offered is still what the gate passed: one file of
the archive must be the bundle, byte for byte.

Invariants: pure; every length is checked against what is there; an archive is read once, front to back.
"""

from __future__ import annotations

from collections.abc import Iterator

MAGICS = (b"070701", b"070702")  # newc, and newc with checksums
HEADER, FIELD, FIRST = 110, 8, "sw-description"
SIZE_AT, NAME_AT = 6 + 6 * FIELD, 6 + 11 * FIELD
LAST = "TRAILER!!!"
MOST_FILES, MOST_NAME = 64, 256


class BadImage(ValueError):
    """The bytes are no archive that SWUpdate reads, or it does not hold the bundle."""


def check_image(data: bytes, bundle: bytes) -> None:
    """Raise BadImage unless `data` is an archive that begins with its description and holds `bundle` unchanged."""
    names, held = [], False
    for name, content in _files(data):
        names.append(name)
        held = held or content == bundle
    if not names or names[0] != FIRST:
        raise BadImage(f"the archive begins with {names[0] if names else 'nothing'!r}; {FIRST} comes first")
    if not held:
        raise BadImage("no file of the archive is the bundle, byte for byte; put it in as it is, uncompressed")


def _files(data: bytes) -> Iterator[tuple[str, memoryview]]:
    """Name and content of each file."""
    view, place = memoryview(data), 0
    for _ in range(MOST_FILES + 1):
        name, size, place = _header(view, place)
        if name == LAST:
            return
        if size > len(view) - place:
            raise BadImage(f"file {name!r} says it has {size} bytes, {len(view) - place} are left")
        yield name, view[place : place + size]
        place = _padded(place + size)
    raise BadImage(f"the archive holds more than {MOST_FILES} files")


def _header(view: memoryview, place: int) -> tuple[str, int, int]:
    """Name, length and where the content begins."""
    head = bytes(view[place : place + HEADER])
    if len(head) < HEADER or head[:6] not in MAGICS:
        raise BadImage("the file is no cpio archive of the kind newc or crc, or it is cut short")
    try:
        size, length = (int(head[at : at + FIELD], 16) for at in (SIZE_AT, NAME_AT))
        name = bytes(view[place + HEADER : place + HEADER + length]).decode("ascii").rstrip("\0")
    except ValueError as error:
        raise BadImage("the archive has a header that is no header") from error
    if not 1 < length <= MOST_NAME or size < 0:
        raise BadImage("the archive has a name of impossible length")
    return name, size, _padded(place + HEADER + length)


def _padded(place: int) -> int:
    return -(-place // 4) * 4
