"""How a run's budget is shared among its trainings, and when it is too small to be worth a step."""

from __future__ import annotations

import math
from enum import Enum

from flows.data.pairs import PairSet
from flows.errors import BudgetError
from flows.steps.context import RetrainSettings, RunContext
from flows.tasks.curve import Curve, curve_of
from flows.tasks.training import Budget
from flows.tasks.vsr.train import TrainSettings

MINIMUM_MINUTES = 0.2
ADAPT_CHECKPOINT, FINETUNE_CHECKPOINT, QAT_CHECKPOINT = "adapt.pt", "finetune.pt", "qat.pt"
RECOVER_CHECKPOINT = "recover.pt"
KEPT_SHARE = 0.6
"""Of the fine-tuning budget, for the network before it is pruned; the rest recovers what the cut cost."""


class Training(Enum):
    """The trainings of a run: place among `RetrainSettings.steps`, share of the minutes, checkpoint.

    RECOVER is there only in a run that prunes, and takes its part of FINETUNE's budget.
    """

    ADAPT = (0, 0.15, ADAPT_CHECKPOINT)
    FINETUNE = (1, 0.70, FINETUNE_CHECKPOINT)
    RECOVER = (1, 0.70, RECOVER_CHECKPOINT)
    QAT = (2, 0.15, QAT_CHECKPOINT)


def check_budget(settings: RetrainSettings) -> None:
    """Raises BudgetError before anything is done when minutes or steps cannot train anything."""
    if settings.steps is None and not settings.budget_minutes >= MINIMUM_MINUTES:
        raise BudgetError(
            f"a budget of {settings.budget_minutes:g} minutes trains nothing; "
            f"give --budget-minutes {MINIMUM_MINUTES:g} or more"
        )
    if settings.steps is not None and settings.prune is not None and not _steps(settings, Training.RECOVER):
        raise BudgetError(f"--steps: {settings.steps[1]} steps of fine-tuning leave none to recover in; give 3 or more")


def budget_of(run: RunContext, training: Training) -> Budget:
    """The budget of one training: its steps where steps are counted, else its share of the minutes."""
    check_budget(run.settings)
    if run.settings.steps is not None:
        return Budget(steps=_steps(run.settings, training))
    seconds = 60.0 * run.settings.budget_minutes * training.value[1] * _part(run.settings, training)
    return Budget(seconds=seconds, wall_seconds=1.25 * seconds)


def require_an_epoch(run: RunContext, training: Training, pairs: PairSet, settings: TrainSettings) -> int:
    """Steps done. Raises BudgetError when they are less than an epoch: each normal recording drawn once on average.

    The checkpoint stays, so that the same run goes on from it when it is given more.
    """
    steps = curve_of_training(run, training).steps
    drawn = settings.batch - round(settings.batch * settings.hard_share)
    epoch = math.ceil(len(pairs.pairs) / drawn)
    if steps >= epoch:
        return steps
    more = run.settings.budget_minutes * epoch / max(1, steps)
    needed = math.ceil(epoch / _part(run.settings, training))
    remedy = f"--steps with {needed}" if run.settings.steps else f"--budget-minutes {math.ceil(10 * more) / 10:g}"
    raise BudgetError(
        f"the budget ended after {steps} steps of {training.name.lower()}, one epoch of {len(pairs.pairs)} recordings "
        f"takes {epoch}; what was learned is kept: go on with --key {run.key} and {remedy} or more"
    )


def _part(settings: RetrainSettings, training: Training) -> float:
    """Share of its budget that a training gets: fine-tuning and recovery share one."""
    if settings.prune is None:
        return 1.0
    return {Training.FINETUNE: KEPT_SHARE, Training.RECOVER: 1.0 - KEPT_SHARE}.get(training, 1.0)


def _steps(settings: RetrainSettings, training: Training) -> int:
    assert settings.steps is not None
    counted = settings.steps[training.value[0]]
    if settings.prune is None or training not in (Training.FINETUNE, Training.RECOVER):
        return counted
    first = math.ceil(KEPT_SHARE * counted)
    return first if training is Training.FINETUNE else counted - first


def curve_of_training(run: RunContext, training: Training) -> Curve:
    """Learning curve of a training that has ended, empty before that."""
    path = curve_of(run.folder.path / training.value[2])
    return Curve.load(path) if path.exists() else Curve()
