"""What a run was begun with, pinned in its folder: a run that goes on later must go on from the same.

The newest generation may be another by then, even this run's own. The corpus may have changed under the same name.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from flows.errors import FlowError
from flows.run_folder import Json
from flows.steps.begun import PINNED
from flows.steps.context import RunContext

_KEPT = (
    "task", "corpus", "seed", "profiles", "targets", "asks", "calibration", "entropy", "prune", "prune_by",
    "candidates",
)  # fmt: skip


def pinned(run: RunContext) -> RunContext:
    """The run with the parent that it was begun with. Raises FlowError when it cannot go on with what it is given."""
    if not run.folder.has(PINNED):
        run.folder.write_json(PINNED, _now(run))
    begun = run.folder.read_json(PINNED)
    for name in _KEPT:
        if name in begun and begun[name] != _now(run)[name]:
            raise FlowError(
                f"run {run.key} was begun with another {name} ({_short(begun[name])}, now {_short(_now(run)[name])}); "
                "give it the same again, or begin a new run"
            )
    if begun["parent"] == run.parent.name:
        return run
    return replace(run, parent=run.store.generation(str(begun["parent"])))


def code_version() -> str:
    """Version of this package, with the commit where it runs from a checkout."""
    version = metadata.version("edgeloop")
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return version
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10)
    return f"{version}+{asked.stdout.strip()[:12]}" if asked.returncode == 0 else version


def _now(run: RunContext) -> Json:
    wanted = run.settings
    return {
        "key": run.key,
        "task": run.settings.task,
        "parent": run.parent.name,
        "corpus": run.corpus.digest(),
        "corpus_folder": wanted.corpus,
        "unlicensed": wanted.unlicensed,
        "auto_release": wanted.auto_release,
        "seed": wanted.seed,
        "profiles": [list(size) for size in wanted.profiles],
        "targets": list(wanted.targets),
        "asks": wanted.asks,
        "calibration": wanted.calibration or "",
        "entropy": wanted.entropy,
        "prune": wanted.prune,
        "prune_by": wanted.prune_by,
        "candidates": wanted.candidates,
        "budget_minutes": wanted.budget_minutes,
        "steps": list(wanted.steps) if wanted.steps else None,
        "code": code_version(),
    }


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
