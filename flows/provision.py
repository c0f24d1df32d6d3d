"""The first release: the seed model becomes a gated build, production, and the devices' factory bundle.

Safe to repeat: evaluation sets and the build have natural keys, and training vectors are named by their revision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from contracts.wire import Build, BuildRequest, TrainingVectorBatch
from flows.platform import Platform
from flows.steps import ship
from flows.steps.context import RetrainSettings, open_context
from flows.steps.evaluation import conditions_of, evaluation_frames

KEY = "seed"
VERSION = "1"


def provision(
    state: Path,
    platform: Platform,
    factory: Path,
    settings: RetrainSettings | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Build:
    """Build the seed, wait for the gate, mark it as production and write its bundle to `factory`."""
    run = open_context(KEY, state, platform, replace(settings or RetrainSettings(), auto_release=False), progress)
    run.progress("evaluation sets", 0.1)
    frames = evaluation_frames(run, conditions_of(()), KEY)
    sets = [platform.post_evaluation_set(found.archive) for found in frames]
    request = BuildRequest(
        name=KEY,
        release_version=VERSION,
        security_epoch=1,
        targets=run.settings.targets,
        profiles=run.settings.profiles,
        evaluation_sets=tuple(found.id for found in sets),
        lineage={"run": KEY, "corpus": run.corpus.digest()},
    )
    run.progress("build", 0.3)
    started = platform.post_build(request, run.parent.model, run.parent.quality, run.parent.observer, "build-seed")
    build = platform.wait_for_build(started.id, lambda seen: run.progress(f"build {seen.state}", 0.5))
    ship.judged(build)
    platform.mark_production(build.id)
    factory.parent.mkdir(parents=True, exist_ok=True)
    temporary = factory.with_suffix(".part")
    temporary.write_bytes(platform.bundle(build.id))
    temporary.replace(factory)
    run.progress("training vectors", 0.9)
    platform.register_observer(run.parent.observer)
    platform.post_training_vectors(TrainingVectorBatch(revision=KEY, vectors=tuple(ship.normal_vectors(run))))
    run.progress("provisioned", 1.0)
    return build
