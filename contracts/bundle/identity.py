"""Does a piece belong to this build? Programs carry the build id in their header, JSON pieces in
``build_id``.
"""

from __future__ import annotations

import json

from contracts.bundle.errors import ForeignPiece

_PROGRAM_BUILD_ID = slice(24, 40)  # offset of build_id in the program header, docs/reference/program.md


def check_build(name: str, data: bytes | memoryview, build_id: str) -> None:
    """Raise :class:`ForeignPiece` when the piece ``name`` was made by another build than ``build_id``."""
    found = _build_of(name, data)
    if found is not None and found != build_id:
        raise ForeignPiece(name, f"made by build {found or 'unknown'}, the bundle is build {build_id}", "build again")


def _build_of(name: str, data: bytes | memoryview) -> str | None:
    if name.endswith(".npu"):
        return bytes(data[_PROGRAM_BUILD_ID]).hex()
    if not name.endswith(".json"):
        return None
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        return ""
    return str(value.get("build_id", "")) if isinstance(value, dict) else ""
