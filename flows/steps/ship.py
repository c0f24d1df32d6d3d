"""Last steps: prove on held-out clips, build and gate, register the training set, release."""

from __future__ import annotations

import hashlib

from contracts.wire import (
    Build,
    BuildRequest,
    BuildState,
    BundleRegistration,
    Provenance,
    RolloutRequest,
    TrainingVector,
    TrainingVectorBatch,
)
from contracts.wire.curation import EvaluationVector, EvaluationVectorBatch
from contracts.wire.releases import NOTES_CHARS
from contracts.wire.search import SearchRecord
from flows.data.degrade import Degradation
from flows.data.pairs import PairSet
from flows.embedder import SegmentEmbedder
from flows.errors import RefusedError
from flows.run_folder import Json
from flows.spread.job import Job
from flows.steps.context import JOBS, RunContext
from flows.steps.evaluation import conditions_of, evaluation_frames
from flows.steps.hard import hard_conditions, parent_vectors
from flows.steps.material import laid
from flows.steps.prune import pruning_text
from flows.steps.roles import FLOAT, MODEL
from flows.tasks.task import Task
from flows.tasks.vsr.architecture import Architecture


def prove(run: RunContext, hard: Json) -> Json:
    """Float, INT8 and parent on held-out clips, in numbers, a row for each condition and frame size; a job a network
    and row.
    """
    sets = evaluation_frames(run, conditions_of(hard_conditions(hard)), run.key)
    networks = {
        "float": {FLOAT: run.folder.path / run.float_weights},
        "int8": {MODEL: run.folder.path / "model.onnx"},
        "parent": {MODEL: run.parent.folder / "model.onnx"},
    }
    jobs = []
    for frames in sets:
        material = laid({frames.name: PairSet(frames.pairs)}, run.folder.path / JOBS / f"{frames.name}.bin")
        jobs += [
            Job(
                f"{network} on {frames.name}", "flows.steps.jobs:prove", {"task": run.task.name},
                {**material.files, **files}, run.settings.seed, material.given,
            )
            for network, files in networks.items()
        ]  # fmt: skip
    found = iter(run.results(jobs, "proving"))
    return {frames.name: _proof(run.task, frames.condition, *(next(found) for _ in networks)) for frames in sets}


def _proof(task: Task, condition: str, float_: Json, int8: Json, parent: Json) -> Json:
    return {
        "condition": condition,
        "float_psnr_rgb": float_["psnr_rgb"],
        "int8_drop_db": float_["psnr_rgb"] - int8["psnr_rgb"],
        "quality": task.quality_name,
        "unit": task.quality_unit,
        "int8_quality": int8["quality"],
        "parent_quality": parent["quality"],
        "gain": int8["quality"] - parent["quality"],
        "flicker": int8["flicker"],
        "parent_flicker": parent["flicker"],
    }


def build(
    run: RunContext,
    hard: Json,
    proved: Json,
    release_version: str,
    search: SearchRecord | None = None,
    pruning: Json | None = None,
) -> Json:
    """Upload evaluation sets, start the build, wait for the gate. Raises RefusedError when it says no."""
    sets = [
        run.platform.post_evaluation_set(frames.archive)
        for frames in evaluation_frames(run, conditions_of(hard_conditions(hard)), run.key)
    ]
    production = run.platform.production_build()
    request = BuildRequest(
        name=run.key,
        release_version=release_version,
        security_epoch=1,
        targets=run.settings.targets,
        profiles=run.settings.profiles,
        entropy=run.settings.entropy,
        evaluation_sets=tuple(found.id for found in sets),
        parent_build=production.id if production else None,
        float_psnr={name: float(row["float_psnr_rgb"]) for name, row in proved.items()},
        lineage={"run": run.key, "parent": run.parent.name, "corpus": run.corpus.digest(), **_lineage_of(pruning)},
        search=search,
    )
    model = run.folder.read("model.onnx")
    started = run.platform.post_build(request, model, run.parent.quality, run.parent.observer, f"build-{run.key}")
    ended = run.platform.wait_for_build(started.id, lambda seen: run.progress(f"build {seen.state}", 0.5))
    before = production.model_dump(mode="json", include={"id", "digest", "release_version"}) if production else None
    return {**judged(ended), "production_before": before}


def _lineage_of(pruning: Json | None) -> dict[str, str]:
    """That the model is smaller than the one that the search chose."""
    return {"pruned": f"{pruning['asked']:g} by {pruning['by']}"} if pruning else {}


def judged(ended: Build) -> Json:
    """The build as JSON, or RefusedError with the gate's reasons."""
    if ended.state is not BuildState.PASSED:
        reasons = "; ".join(ended.verdict.reasons) if ended.verdict else ended.message
        raise RefusedError(
            f"build {ended.id} ended {ended.state}: {reasons or 'no reason given'}. {ended.remedy}".strip()
        )
    return ended.model_dump(mode="json")


def register_training_set(run: RunContext, hard: Json) -> Json:
    """Tell curation where the new training set lands, so that coverage is measured against it."""
    register_held_out(run, hard)
    vectors = normal_vectors(run)
    clips = {clip.id: clip for clip, _ in run.training_clips}
    for stand_in in hard["stand_ins"]:
        condition = Degradation(**stand_in["degradation"])
        label = f"hard-gain{condition.gain:g}-noise{condition.noise:g}-crf{condition.crf:g}"
        vectors += [
            TrainingVector(
                video=clips[stand_in["clip"]].video,
                condition=label,
                clip=stand_in["clip"],
                vector=tuple(map(float, row)),
            )
            for row in stand_in["vectors"]
        ]
    run.platform.post_training_vectors(
        TrainingVectorBatch(revision=run.key, parent=run.parent.name, vectors=tuple(vectors))
    )
    run.platform.start_curation()
    return {"revision": run.key, "vectors": len(vectors)}


def register_held_out(run: RunContext, hard: Json) -> int:
    """Tell curation what the run is judged by, before its training set: it refuses a training set that holds the same
    clips. Returns the number of vectors.
    """
    embedder = SegmentEmbedder(run.parent.quality)
    vectors = [
        EvaluationVector(clip=pair.clip, vector=tuple(map(float, row)))
        for frames in evaluation_frames(run, conditions_of(hard_conditions(hard)), run.key)
        for pair in frames.pairs
        for row in embedder.segments(pair.low)
    ]
    run.platform.post_evaluation_vectors(EvaluationVectorBatch(revision=run.key, vectors=tuple(vectors)))
    return len(vectors)


def normal_vectors(run: RunContext) -> list[TrainingVector]:
    """Vectors of the parent's training set."""
    rows = parent_vectors(run, SegmentEmbedder(run.parent.quality))
    return [
        TrainingVector(video=landed.video, condition=landed.condition, clip=landed.clip, vector=tuple(map(float, row)))
        for landed in rows
        for row in landed.vectors
    ]


def keep_generation(run: RunContext, hard: Json, trained: Json) -> Json:
    """Write what the next run will start from."""
    conditions = tuple(dict.fromkeys((*run.parent.conditions, *(c.to_json() for c in hard_conditions(hard)))))
    files = {
        "model.onnx": run.folder.read("model.onnx"),
        "model.npz": run.folder.read(run.float_weights),
        "supernet.npz": run.folder.read("supernet.npz"),
        "quality.onnx": run.parent.quality,
        "observer.npz": run.parent.observer,
    }
    run.store.add(run.key, files, Architecture.from_json(trained["architecture"]), conditions)
    run.store.promote(run.key)
    return {"generation": run.key}


def release(run: RunContext, built: Json, proved: Json, mlflow_run: str, pruning: Json | None = None) -> Json:
    """Register the bundle with its notes and where it comes from, and start a rollout that needs nobody."""
    run.platform.register_bundle(
        BundleRegistration(
            build_id=str(built["id"]),
            notes=release_notes(run, proved, pruning),
            provenance=provenance(run, str(built["id"]), mlflow_run),
        )
    )
    if not run.settings.auto_release:
        return {"rollout": None, "digest": built["digest"]}
    rollout = run.platform.start_rollout(rollout_request(run, built), f"rollout-{run.key}")
    return {"rollout": rollout.id, "digest": built["digest"]}


def rollout_request(run: RunContext, built: Json) -> RolloutRequest:
    """The rollout that a run asks for."""
    return RolloutRequest(
        digest=str(built["digest"]),
        soak_s=run.settings.soak_s,
        min_devices=run.settings.min_devices,
        auto_start=True,
        reason=f"retrained by {run.key}",
    )


def provenance(run: RunContext, build_id: str, mlflow_run: str) -> Provenance:
    """Run, tracked run (none where MLflow did not answer), the gate's report, and digests of what went in."""
    made = {name: run.folder.read(name) for name in ("model.onnx", run.float_weights)}
    given = {
        "parent-model.onnx": run.parent.model,
        "quality.onnx": run.parent.quality,
        "observer.npz": run.parent.observer,
    }
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in {**made, **given}.items()}
    return Provenance(
        run=run.key,
        mlflow_run=mlflow_run or None,
        gate_report=f"/builds/v1/builds/{build_id}",
        sources={"corpus": run.corpus.digest(), **hashes},
    )


def release_notes(run: RunContext, proved: Json, pruning: Json | None = None) -> str:
    """What is better and what it costs, on clips that nothing was trained on, as Markdown."""
    rows = [
        f"| {name} | {row['condition']} | {row['gain']:+.2f} {row['unit']} | {row['int8_drop_db']:.2f} dB |"
        for name, row in sorted(proved.items())
    ]
    head = [f"Retrained by run `{run.key}` from `{run.parent.name}`.", ""]
    head += [pruning_text(pruning), ""] if pruning else []
    table = ["| held-out clips | condition | gain over the parent | lost by INT8 |", "|---|---|---|---|"]
    lines = [*head, *table]
    for row in rows:
        if len("\n".join([*lines, row])) > NOTES_CHARS - 40:
            lines.append("| more in the gate's report | | | |")
            break
        lines.append(row)
    return "\n".join(lines)
