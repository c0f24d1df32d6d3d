"""Which licence a video has and who is in it, as told by files beside the videos.

`LICENCES.json` ({"name": "licence"}) and `PEOPLE.json` ({"name": "person or scene"}) may lie in any folder; a name is a
file's stem, its path without suffix, or "*" for the whole folder. The nearest file that says something wins. Without
`PEOPLE.json` a subfolder is a person, and a file that lies at the top is one on its own.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from flows.data.errors import CorpusError

NOT_STATED = "not stated"
_MAX_BYTES = 4 << 20


def licence_of(folder: Path, path: Path) -> str | None:
    """The licence of a video below `folder`, or None when nobody stated one."""
    found = _told(folder, path, "LICENCES.json")
    return found if found and found.strip() and found != NOT_STATED else None


def group_of(folder: Path, path: Path) -> str:
    """Person or scene that a video shows. Videos of one group are never on both sides of the split."""
    named = _told(folder, path, "PEOPLE.json")
    if named:
        return named
    inside = path.parent.relative_to(folder).as_posix()
    return path.stem if inside == "." else inside


def _told(folder: Path, path: Path, name: str) -> str | None:
    place = path.parent
    while True:
        table = _table(place / name)
        for key in (path.relative_to(place).with_suffix("").as_posix(), path.stem, path.name, "*"):
            if key in table:
                return table[key]
        if place == folder:
            return None
        place = place.parent


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int) -> dict[str, str]:
    try:
        raw = json.loads(path.read_bytes()[:_MAX_BYTES])
        if not isinstance(raw, dict) or not all(isinstance(text, str) for text in raw.values()):
            raise ValueError("not an object of texts")
    except (OSError, ValueError) as error:
        raise CorpusError(
            f'{path.name}: not a JSON object of {{"name": "text"}} ({error}); correct the file'
        ) from error
    return raw


def _table(path: Path) -> dict[str, str]:
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else {}
