"""Master keys that wrap the content keys of sealed bundles. Generations count from 1; the newest wraps, older ones
unwrap.

From files (`content-<generation>.key` in the folder of the signing keys, mode 0600, made by `edgeloop release keys
rotate`), or from the environment (`EDGELOOP_CONTENT_KEYS`, "1:<base64>,2:<base64>"), which a secret store fills. They
are never logged, never in the database, and never leave this process.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from pathlib import Path
from typing import Protocol

from services.releases.keys import KeyUnusable, write_once

KEY_BYTES = 32
MOST_GENERATIONS = 100
_NAME = re.compile(r"^content-([1-9][0-9]{0,3})\.key$")


class WrappingKeys(Protocol):
    """Raises KeyUnusable, whose message names the key and the remedy and never its bytes."""

    @property
    def generations(self) -> tuple[int, ...]:
        """What there is, oldest first; none: bundles cannot be sealed."""

    def key(self, generation: int) -> bytes:
        """The master key of 32 bytes."""

    def create(self) -> int:
        """Make the next generation and return it."""

    def destroy(self, generation: int) -> None:
        """Forget a generation for ever."""


class FileWrappingKeys:
    """Keys as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def generations(self) -> tuple[int, ...]:
        if not self._folder.is_dir():
            return ()
        found = (_NAME.match(path.name) for path in self._folder.iterdir())
        return tuple(sorted(int(match.group(1)) for match in found if match))

    def key(self, generation: int) -> bytes:
        path = self._path(generation)
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text("ascii").strip()
            key = bytes.fromhex(text)
        except FileNotFoundError as error:
            raise KeyUnusable(f"content wrapping key {path} is missing; restore it from the backup") from error
        except ValueError as error:
            raise KeyUnusable(f"content wrapping key {path} is not hexadecimal; restore it from the backup") from error
        if mode & 0o077:
            raise KeyUnusable(f"content wrapping key {path} has mode {mode:04o}: others could read it; chmod 600 it")
        if len(key) != KEY_BYTES:
            raise KeyUnusable(f"content wrapping key {path} has {len(key)} bytes, not {KEY_BYTES}")
        return key

    def create(self) -> int:
        generation = max(self.generations, default=0) + 1
        if generation > MOST_GENERATIONS:
            raise KeyUnusable(f"{MOST_GENERATIONS} generations of wrapping keys; move to a new platform key folder")
        write_once(self._path(generation), os.urandom(KEY_BYTES).hex().encode())
        return generation

    def destroy(self, generation: int) -> None:
        self._path(generation).unlink(missing_ok=True)

    def _path(self, generation: int) -> Path:
        return self._folder / f"content-{generation}.key"


class GivenWrappingKeys:
    """Keys from the environment; who gave them makes and destroys them."""

    def __init__(self, text: str) -> None:
        """Raises KeyUnusable."""
        self._keys = dict(_parsed(part) for part in text.split(",") if part.strip())
        if not self._keys:
            raise KeyUnusable("EDGELOOP_CONTENT_KEYS is not like 1:<base64>,2:<base64>")

    @property
    def generations(self) -> tuple[int, ...]:
        return tuple(sorted(self._keys))

    def key(self, generation: int) -> bytes:
        if generation not in self._keys:
            raise KeyUnusable(f"EDGELOOP_CONTENT_KEYS has no generation {generation}; add it from the secret store")
        return self._keys[generation]

    def create(self) -> int:
        """Nothing is made here: the newest one given counts."""
        return max(self._keys)

    def destroy(self, generation: int) -> None:
        raise KeyUnusable(f"generation {generation} comes from EDGELOOP_CONTENT_KEYS: remove it there and restart")


def _parsed(part: str) -> tuple[int, bytes]:
    number, _, text = part.strip().partition(":")
    try:
        generation, key = int(number), base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise KeyUnusable("EDGELOOP_CONTENT_KEYS is not like 1:<base64>,2:<base64>") from error
    if not 1 <= generation <= 9_999 or len(key) != KEY_BYTES:
        raise KeyUnusable(f"EDGELOOP_CONTENT_KEYS: generation {generation} wants base64 of {KEY_BYTES} bytes")
    return generation, key
