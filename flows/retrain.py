"""Flow `retrain`: from hard clusters to a running rollout, without a person.

collect -> hard set -> study -> operator table -> search -> train -> quantise -> prove -> build and gate -> register
the training set -> keep the generation -> release. A run that is asked for it cuts the trained network and lets it
recover before it is quantised (`flows.steps.prune`). Every step leaves an artefact in the run folder and is skipped
when that is there, so a killed run goes on where it stood. Truth lives in the run folder and in the platform's
database; Prefect and MLflow may lose or repeat anything. Jobs within a step may be spread (`flows.spread`).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from compiler.errors import CompileError
from contracts.lab import LabError
from contracts.tracing import span
from flows.errors import StepError
from flows.lineage import described, lineage
from flows.platform import Platform
from flows.run_folder import Json
from flows.run_pulse import RunPulse
from flows.spread.spread import Kind, Spread
from flows.steps import artefacts, hard, learn, prune, ship
from flows.steps.begun import settings_of
from flows.steps.budget import check_budget
from flows.steps.collect import collect
from flows.steps.context import JOBS, RetrainSettings, RunContext, open_context
from flows.steps.evaluation import check_judged
from flows.steps.hard import TrainingPairs
from flows.steps.pin import pinned
from flows.tasks.device import training_device
from flows.tasks.registry import task_named
from flows.tracking import Tracker

STEPS = (
    "collect", "hard_set", "study", "operators", "search", "train", "quantise", "prove", "build", "training_set",
    "generation", "release",
)  # fmt: skip


def run_retrain(
    key: str,
    state: Path,
    platform: Platform,
    settings: RetrainSettings | None = None,
    progress: Callable[[str, float], None] | None = None,
    tracker: Tracker | None = None,
) -> Json:
    """Do (or finish) the run `key`; returns the results of all steps by name.

    Raises BusyError when another process does it, and the FlowError of the step that cannot go on.
    """
    wanted = settings or settings_of(state / "runs" / key)
    check_budget(wanted)
    check_judged(task_named(wanted.task))
    training_device()  # one that is not here is told now, not after minutes of collecting
    with RunPulse(state / "runs" / key) as pulse, Spread(Kind.parse(wanted.spread).runner()) as spread:
        run = replace(pinned(open_context(key, state, platform, wanted, progress)), spread=spread)
        tracked = tracker or Tracker.from_environment(key, wanted.task)
        tracked.open(run.folder, described(run))
        try:
            return _all_steps(replace(run, progress=_both(run.progress, pulse.told)), tracked)
        except Exception:
            tracked.fail()
            raise


def _all_steps(run: RunContext, tracked: Tracker) -> Json:
    step = _Stepper(run, tracked)
    pairs = _Pairs(run)
    collected = step("collect", lambda: collect(run))
    found = step("hard_set", lambda: hard.find_hard_set(run, collected))
    artefacts.after_hard_set(run, found)
    tracked.lineage(lineage(run, collected))
    studied = step("study", lambda: learn.study(run, pairs.get(found)))
    artefacts.after_operators(run, step("operators", lambda: learn.measure(run)))
    searched = step("search", lambda: learn.search_architecture(run, pairs.get(found), studied))
    prune.check_prunable(run, searched)
    trained = step("train", lambda: learn.train(run, pairs.get(found), searched))
    settled = learn.settled(searched, trained)
    artefacts.after_search(run, settled)
    kept, pruning = _pruned(run, step, lambda: pairs.get(found), trained)
    quantised = step("quantise", lambda: learn.quantise(run, pairs.get(found)))
    hard.forget_pairs(run)
    artefacts.after_training(run)
    proved = step("prove", lambda: ship.prove(run, found))
    artefacts.after_proof(run, proved, quantised, pruning)
    told = artefacts.told_search(run, settled)
    built = step("build", lambda: ship.build(run, found, proved, release_version(run.key), told, pruning))
    step("training_set", lambda: ship.register_training_set(run, found))
    step("generation", lambda: ship.keep_generation(run, found, kept))
    released = step("release", lambda: ship.release(run, built, proved, tracked.run_id, pruning))
    artefacts.after_release(run, built, released, pruning)
    shutil.rmtree(run.folder.path / JOBS, ignore_errors=True)
    tracked.finish()
    return {"key": run.key, "steps": run.folder.steps(), **step.results}


def _pruned(
    run: RunContext, step: _Stepper, pairs: Callable[[], TrainingPairs], trained: Json
) -> tuple[Json, Json | None]:
    """The step whose network is kept, and what pruning gave; the trained one and None in a run that does not prune."""
    if run.settings.prune is None:
        return trained, None
    pruned = step("prune", lambda: prune.prune(run, pairs(), trained))
    recovered = step("recover", lambda: prune.recover(run, pairs(), pruned))
    return recovered, prune.pruning_sheet(pruned, recovered)


def release_version(key: str) -> str:
    """A version that says which run made it."""
    return f"2-{key}"[:32]


def state_folder() -> Path:
    """Where runs and models are kept: EDGELOOP_STATE_DIR, or `var` below the working folder."""
    return Path(os.environ.get("EDGELOOP_STATE_DIR", "var"))


def new_key(alarm_id: str | None) -> str:
    """Name of a run: the alarm's when one asked for it, so that asking twice continues the same run."""
    return f"alarm-{alarm_id[:20]}" if alarm_id else time.strftime("hand-%Y%m%d-%H%M%S", time.gmtime())


class _Stepper:
    """Runs steps through the folder's cache and tells progress and tracker."""

    def __init__(self, run: RunContext, tracker: Tracker) -> None:
        self._run, self._tracker = run, tracker
        self.results: Json = {}

    def __call__(self, name: str, make: Callable[[], Json]) -> Json:
        self._run.progress(name, 0.0)
        try:
            with span(f"step {name}"):
                value = self._run.folder.step(name, make)
        except (LabError, CompileError) as error:
            raise StepError(
                f"step {name} of run {self._run.key}: {error}; what was done before is kept: "
                "correct it and start the run again"
            ) from error
        self._tracker.step(name, value)
        self._run.progress(name, 1.0)
        self.results[name] = value
        return value


class _Pairs:
    """Training pairs, prepared when the first step needs them."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._made: TrainingPairs | None = None

    def get(self, found: Json) -> TrainingPairs:
        if self._made is None:
            self._made = hard.prepared_pairs(self._run, found)
        return self._made


def _both(first: Callable[[str, float], None], second: Callable[[str, float], None]) -> Callable[[str, float], None]:
    def tell(what: str, share: float) -> None:
        second(what, share)
        first(what, share)

    return tell
