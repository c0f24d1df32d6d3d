"""What a run that goes on takes over from its beginning, so that nobody has to say it again.

A run that a person began with `--no-release` and that the nightly flow finishes must not be released.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.errors import FlowError
from flows.run_folder import Json, RunFolder
from flows.steps.context import RetrainSettings

PINNED = "run.json"
_READERS: dict[str, Callable[[Any], object]] = {  # Any: plain JSON
    "task": str,
    "seed": int,
    "profiles": lambda sizes: tuple((int(rows), int(columns)) for rows, columns in sizes),
    "targets": tuple,
    "asks": str,
    "calibration": lambda folder: folder or None,
    "entropy": str,
    "prune": lambda share: share,
    "prune_by": str,
    "candidates": int,
    "budget_minutes": float,
    "steps": lambda counts: tuple(counts) if counts else None,
    "corpus_folder": lambda folder: folder,
    "unlicensed": bool,
    "auto_release": bool,
}
_NAMES = {"corpus_folder": "corpus"}  # `corpus` in the file is the digest


def settings_of(folder: Path, **changes: object) -> RetrainSettings:
    """Settings for the run in `folder`: defaults, overridden by the environment, by what the run was begun with, and by
    `changes` that are not None. Raises FlowError for a value that cannot be.
    """
    begun = begun_with(folder)
    if changes.get("budget_minutes") is not None:
        begun.pop("steps", None)  # minutes were asked for now
    return RetrainSettings.from_environment(begun, **changes)


def begun_with(folder: Path) -> dict[str, object]:
    """Settings by name that the run in `folder` was begun with; empty for a run that has not begun.

    Raises FlowError when the file cannot be read.
    """
    if not (folder / PINNED).exists():
        return {}
    kept: Json = RunFolder(folder).read_json(PINNED)
    try:
        return {_NAMES.get(name, name): read(kept[name]) for name, read in _READERS.items() if name in kept}
    except (TypeError, ValueError) as error:
        raise FlowError(f"{folder / PINNED} is damaged ({error}); begin a new run") from error
