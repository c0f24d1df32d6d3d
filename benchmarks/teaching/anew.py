"""A supernet trained anew on healthy and hard calls: what the incremental answer is compared with begins here."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.teaching import sharing
from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell
from benchmarks.teaching.hardening import hard_pairs, normal_pairs
from benchmarks.teaching.kept import kept, sources
from flows.data.pairs import PairSet
from flows.tasks.training import Budget
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.train import train_supernet

_CODE = sources(
    "benchmarks/teaching/anew.py", "benchmarks/teaching/hardening.py", "benchmarks/teaching/material.py",
    "benchmarks/teaching/sharing.py", "flows/data", "flows/tasks/batches.py", "flows/tasks/training.py",
    "flows/tasks/vsr",
)  # fmt: skip


def supernet_anew(seed: int, tell: Tell | None = None) -> Supernet:
    """The supernet of a seed, trained when it is not kept; as many CPU seconds as the one of clean scenes got."""
    seconds = budgets().supernet
    configuration = {"seconds": seconds, "space": repr(sharing.SPACE), "settings": repr(sharing.SUPERNET)}
    at = kept("anew", seed, configuration, _CODE)
    path, checkpoint = at.folder / "supernet.npz", at.folder / "supernet.checkpoint"
    if not path.is_file():
        made = train_supernet(
            PairSet((*normal_pairs().pairs, *hard_pairs().pairs)), Budget(seconds=seconds, wall_seconds=sharing.DAYS),
            space=sharing.SPACE, settings=replace(sharing.SUPERNET, seed=seed), progress=tell, checkpoint=checkpoint,
        )  # fmt: skip
        save_supernet(made, path)
        checkpoint.unlink(missing_ok=True)
    return load_supernet(path)
