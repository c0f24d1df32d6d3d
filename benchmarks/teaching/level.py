"""First stage: the hand-made network after its CPU seconds, on held-out scenes, against bicubic."""

from __future__ import annotations

import json

from benchmarks.teaching.anchor import load_anchor, train_anchor
from benchmarks.teaching.bicubic import doubled
from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.kept import Json, Kept, kept
from benchmarks.teaching.material import judge_sets
from flows.tasks.training import Progress
from flows.tasks.vsr.metrics import evaluate

_SOURCES = (
    "benchmarks/teaching/anchor.py", "benchmarks/teaching/bicubic.py", "benchmarks/teaching/material.py",
    "benchmarks/teaching/plain.py", "flows/data/pairs.py", "flows/tasks/batches.py", "flows/tasks/training.py",
)  # fmt: skip


def place(seed: int) -> Kept:
    """Where the anchor of a seed lies."""
    return kept("anchor", seed, {"seconds": budgets().anchor}, _SOURCES)


def level(seed: int, progress: Progress | None = None) -> Json:
    """Y-PSNR of network and bicubic on each held-out set, dB; what training did."""
    at = place(seed)
    if at.result is not None:
        return at.result
    weights = train_anchor(seed, budgets().anchor, at.folder, progress)
    net = load_anchor(weights)
    sets = judge_sets()
    return at.finish(
        {
            "training": json.loads(weights.with_suffix(".json").read_text()),
            "network": {name: evaluate(net, pairs).psnr_y for name, pairs in sets.items()},
            "bicubic": {name: evaluate(doubled, pairs).psnr_y for name, pairs in sets.items()},
        }
    )
