"""Second stage: the product's supernet over the fine space, trained on clean pairs; sizes in order, and a ranking.

`supernet` trains and judges a chain of networks, each containing the one before. `ranking` draws eight networks that
are spread over size, judges their slices, fine-tunes each alike and asks whether the order was right (Kendall's tau).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from torch import nn

from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell, part
from benchmarks.teaching.kept import Json, Kept, kept
from benchmarks.teaching.material import judge_sets, training_set
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import FINE_SPACE, Architecture, Stage
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.train import Net, TrainSettings, finetune, train_supernet

DAYS = 30 * 86_400.0
SUPERNET = TrainSettings(batch=16, patch=32, rate=1.2e-3, max_first=0.2, branches=True)
TUNE = TrainSettings(batch=16, patch=32, rate=1e-3, hard_share=0.0)
RANKED, _POOL = 8, 400
SPACE = FINE_SPACE
"""Fine, because the hand-made network works at the frame's own resolution too."""

CHAIN = tuple(
    SPACE.network(trunk, tuple(Stage(1, mid) if mid else Stage(0, 8) for mid in mids))
    for trunk, mids in (
        (8, (8, 0, 0)), (8, (16, 8, 0)), (16, (16, 16, 0)), (16, (32, 16, 0)), (16, (32, 32, 16)), (16, (32, 32, 32)),
    )
)  # fmt: skip
_CODE = (
    "benchmarks/teaching/bicubic.py", "benchmarks/teaching/material.py", "benchmarks/teaching/sharing.py",
    "flows/data/clips.py", "flows/data/pairs.py", "flows/tasks/batches.py", "flows/tasks/training.py",
    "flows/tasks/vsr/architecture.py", "flows/tasks/vsr/branches.py", "flows/tasks/vsr/net.py",
    "flows/tasks/vsr/supernet.py", "flows/tasks/vsr/train.py",
)  # fmt: skip


def place(seed: int) -> Kept:
    """Where the supernet of a seed lies."""
    return kept("supernet", seed, {"seconds": budgets().supernet, "space": repr(SPACE)}, _CODE)


def supernet(seed: int, tell: Tell | None = None) -> Json:
    """dB of the chain on all held-out sets, smallest network first; what training did."""
    at = place(seed)
    if at.result is not None:
        return at.result
    path = at.folder / "supernet.npz"
    if not path.is_file():
        _train(seed, path, part(tell, 0.0, 0.95, "supernet"))
    trained = load_supernet(path)
    rows = [{"architecture": one.to_json(), "psnr": levels_of(trained.extract(one))} for one in CHAIN]
    return at.finish({"chain": rows, "seconds": budgets().supernet})


def trained_supernet(seed: int, tell: Tell | None = None) -> Supernet:
    """The supernet of a seed, trained when it is not there yet."""
    supernet(seed, tell)
    return load_supernet(place(seed).folder / "supernet.npz")


def ranking(seed: int, tell: Tell | None = None) -> Json:
    """Mean dB over the held-out sets of eight slices, before and after fine-tuning alike; tau of the two orders."""
    tuned_for = budgets().ranked
    at = kept("ranking", seed, {"supernet": place(seed).key, "seconds": tuned_for}, _CODE)
    if at.result is not None:
        return at.result
    trained = trained_supernet(seed, part(tell, 0.0, 0.4, "supernet"))
    rows = []
    for index, architecture in enumerate(spread(seed)):
        begin = 0.4 + 0.6 * index / RANKED
        row = at.folder / f"net{index}.npy"
        if not row.is_file():
            net = trained.extract(architecture)
            before = mean_level(net)
            told = part(tell, begin, begin + 0.6 / RANKED, f"network {index + 1} of {RANKED}")
            tune(net, seed, tuned_for, at.folder / f"net{index}.checkpoint", told)
            np.save(row, np.array([before, mean_level(net)]))
        before, after = (float(value) for value in np.load(row))
        rows.append({"architecture": architecture.to_json(), "slice": before, "tuned": after})
    tau = kendall([row["slice"] for row in rows], [row["tuned"] for row in rows])
    return at.finish({"networks": rows, "tau": tau, "seconds": tuned_for})


def tune(net: Net, seed: int, seconds: float, checkpoint: Path, tell: Tell | None = None) -> Net:
    """Fine-tune on the clean pairs, in place."""
    pairs, budget = training_set(), Budget(seconds=seconds, wall_seconds=DAYS)
    settings = replace(TUNE, seed=seed)
    tuned = finetune(net, pairs, pairs, budget, settings=settings, checkpoint=checkpoint, progress=tell)
    checkpoint.unlink(missing_ok=True)
    return tuned


def spread(seed: int) -> list[Architecture]:
    """Eight networks of the space, drawn at random and taken at equal steps of multiply-accumulates in their order."""
    random = np.random.default_rng([seed, 8])
    drawn = sorted({SPACE.sample(random) for _ in range(_POOL)}, key=lambda one: (one.macs(64, 64), one.to_json()))
    places = np.linspace(0, len(drawn) - 1, RANKED).round().astype(int)
    return [drawn[place] for place in places]


def levels_of(net: nn.Module) -> dict[str, float]:
    """dB by held-out set."""
    net.eval()
    return {name: evaluate(net, pairs).psnr_y for name, pairs in judge_sets().items()}


def mean_level(net: nn.Module) -> float:
    """dB, mean over the held-out sets."""
    return float(np.mean(list(levels_of(net).values())))


def kendall(one: list[float], other: list[float]) -> float:
    """Kendall's tau-a: agreeing minus disagreeing pairs over all pairs."""
    signs = [np.sign((one[a] - one[b]) * (other[a] - other[b])) for a, b in combinations(range(len(one)), 2)]
    return float(np.mean(signs))


def _train(seed: int, path: Path, tell: Tell) -> None:
    checkpoint = path.with_suffix(".checkpoint")
    made = train_supernet(
        training_set(), Budget(seconds=budgets().supernet, wall_seconds=DAYS), space=SPACE,
        settings=replace(SUPERNET, seed=seed), progress=tell, checkpoint=checkpoint,
    )  # fmt: skip
    save_supernet(made, path)
    checkpoint.unlink(missing_ok=True)
