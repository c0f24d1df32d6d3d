"""What a run is judged by reaches curation before what it was trained on, each vector under the name of its scene."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from demo.scene import write_lossless
from flows.data.corpus import Split, default_corpus, read
from flows.run_folder import Json
from flows.steps.context import RetrainSettings, RunContext, open_context
from flows.steps.ship import register_training_set
from services.curation.domain.leakage import leakage
from tests.support.flow_twin import FlowPlatformTwin

STAND_IN = {"clip": "street", "degradation": {"gain": 0.5, "noise": 8.0, "crf": 27.0}, "vectors": [[0.5] * 32]}
HARD: Json = {"stand_ins": [{**STAND_IN, "reached": 3}]}


def context(folder: Path, twin: FlowPlatformTwin) -> RunContext:
    whole = default_corpus()
    clips = folder / "clips"
    clips.mkdir()
    write_lossless(clips / "street.mp4", read(whole.clip("bikes/2"), limit=26)[:, :, :320], 25.0)
    write_lossless(clips / "zebra.mp4", read(whole.clip("carphone_pristine"), limit=26), 25.0)
    return open_context("r1", folder / "state", twin, RetrainSettings(corpus=str(clips), unlicensed=True))  # type: ignore[arg-type]  # a twin


def test_curation_hears_what_is_held_out_first_and_the_two_share_no_scene(tmp_path: Path) -> None:
    twin = FlowPlatformTwin(np.zeros((1, 32), np.float32), eps=0.1)
    run = context(tmp_path, twin)
    told = register_training_set(run, HARD)
    assert twin.order == ["evaluation", "training"]
    judged_by, trained_on = twin.judged_by[0].vectors, twin.batches[0].vectors
    assert {vector.clip for vector in judged_by} == {clip.id for clip in run.corpus.of(Split.HELD_OUT)}
    assert {vector.clip for vector in trained_on} == {"street"}
    assert told["vectors"] == len(trained_on)


def test_a_training_set_of_held_out_scenes_would_be_seen_as_a_leak(tmp_path: Path) -> None:
    twin = FlowPlatformTwin(np.zeros((1, 32), np.float32), eps=0.1)
    register_training_set(context(tmp_path, twin), HARD)
    vectors = np.array([one.vector for one in twin.judged_by[0].vectors], np.float32)
    clips = [one.clip for one in twin.judged_by[0].vectors]
    assert len(leakage(vectors, clips, vectors, clips, 0.02).leaks) == len(vectors)
