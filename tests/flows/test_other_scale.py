"""The flow's steps take a task of another scale, judged by another metric; only the gate asks for twice the size."""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from flows.data.codec import write_lossless
from flows.data.corpus import Split
from flows.data.degrade import HARD, NORMAL
from flows.data.errors import CorpusError
from flows.data.intake.survey import survey
from flows.data.pairs import Pair, PairSet, View, make_pairs
from flows.errors import FlowError
from flows.model_store import SEEDS, Generation, ModelStore
from flows.platform import Platform
from flows.quant.qat import qat
from flows.retrain import run_retrain
from flows.run_folder import Json, RunFolder
from flows.steps import learn, prune, ship
from flows.steps.context import RetrainSettings, RunContext
from flows.steps.evaluation import check_judged
from flows.steps.hard import TrainingPairs, check_sizes
from flows.tasks import registry
from flows.tasks.vsr.task import VSR
from flows.tracking import Tracker
from tests.support.second_task import FIRST, LARGE_MASK, MASK, SPACE, MaskSupernet

NOBODY = Platform("http://127.0.0.1:9", "t")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is installed."""
    point = EntryPoint(LARGE_MASK.name, "tests.support.second_task:LARGE_MASK", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])


@pytest.fixture
def run(known: None, tmp_path: Path) -> RunContext:
    """A run of it on two short videos, from a parent with random weights."""
    y, x = np.mgrid[0:64, 0:96]
    waves = 127 + 90 * np.sin(x[..., None] / (9.0, 11.0, 13.0)) * np.cos(y[..., None] / 7.0)
    (tmp_path / "clips").mkdir()
    for name, shift in (("ann", 0), ("zoe", 17)):
        scene = np.stack([np.roll(waves, shift + frame, 1) for frame in range(26)])
        write_lossless(tmp_path / "clips" / f"{name}.mp4", np.clip(scene, 0, 255).astype(np.uint8))
    corpus = survey(tmp_path / "clips", unlicensed=True).corpus
    seeds, supernet = tmp_path / "seed", MaskSupernet(SPACE, LARGE_MASK.scale)
    seeds.mkdir()
    LARGE_MASK.save_supernet(supernet, seeds / "supernet.npz")
    pairs = make_pairs(corpus.of(Split.TRAIN), [NORMAL], (View(),), LARGE_MASK.pair)
    model = qat(supernet.extract(FIRST), pairs, None, None, settings=learn.FINETUNE, task=LARGE_MASK).model
    (seeds / "model.onnx").write_bytes(model)
    for name in ("quality.onnx", "observer.npz"):
        (seeds / name).write_bytes((SEEDS / name).read_bytes())
    settings = RetrainSettings(
        task=LARGE_MASK.name, steps=(4, 200, 20), profiles=((32, 48),), targets=("npu-4t",), prune=0.95,
        prune_by="parameters", latency_limit=1.5,
    )  # fmt: skip
    store = ModelStore(tmp_path / "models", SEEDS)
    return RunContext(
        "s", RunFolder(tmp_path / "run"), NOBODY, store, Generation("seed", seeds, FIRST, ()), corpus, settings
    )


@pytest.mark.slow
def test_study_search_training_pruning_int8_and_proof_at_four_times_the_size(run: RunContext) -> None:
    clips = run.corpus.of(Split.TRAIN)
    normal, hard = (make_pairs(clips, [one], (View(),), run.task.pair) for one in (NORMAL, HARD))
    assert normal.pairs[0].high.shape[1:3] == (128, 192)
    pairs = TrainingPairs(normal, hard, normal, hard)
    for one in vars(pairs).values():
        check_sizes(run.task, one)
    learn.measure(run)
    searched = learn.search_architecture(run, pairs, learn.study(run, pairs))
    assert 0.0 <= searched["chosen_psnr"] <= 100.0
    searched["chosen"] = SPACE.largest.to_json()
    trained = learn.train(run, pairs, searched)
    pruned = prune.prune(run, pairs, trained)
    recovered = prune.recover(run, pairs, pruned)
    quantised = learn.quantise(run, pairs)
    met = run.task.evaluate(run.folder.read("model.onnx"), normal)
    assert quantised["normal_validation"] == met.quality == met.other != met.psnr_y
    assert met.quality > 60.0, "most of the mask is met"
    assert (pruned["quality"], pruned["unit"]) == ("intersection over union", "%")
    assert f"{recovered['recovered']:.2f} % after" in prune.pruning_text(prune.pruning_sheet(pruned, recovered))
    hard_set: Json = {"stand_ins": [{"degradation": asdict(HARD), "reached": 1, "harm_db": 5.0}]}
    proved = ship.prove(run, hard_set)
    assert {row["condition"] for row in proved.values()} == {"normal", "hard"}
    for row in proved.values():
        assert (row["quality"], row["unit"]) == ("intersection over union", "%")
        assert row["gain"] == row["int8_quality"] - row["parent_quality"] > 0.0
    assert "%" in ship.release_notes(run, proved).splitlines()[-1]


def test_a_whole_run_that_the_gate_could_not_judge_is_refused_before_anything_is_done(
    known: None, tmp_path: Path
) -> None:
    settings = RetrainSettings(task=LARGE_MASK.name)
    with pytest.raises(FlowError, match=r"task bright-mask-x4 makes 64x128 of 16x32; the gate judges .* twice"):
        run_retrain("r", tmp_path, NOBODY, settings, None, Tracker("r", None))
    assert not (tmp_path / "runs").exists()
    check_judged(VSR)
    check_judged(MASK)


def test_targets_of_another_size_than_the_task_says_are_refused_by_name() -> None:
    low, high = (np.zeros((2, side, side, 3), np.uint8) for side in (16, 64))
    check_sizes(LARGE_MASK, PairSet((Pair("a", NORMAL, low, high),)))
    with pytest.raises(FlowError, match=r"bright-mask: its pair\(\) made a target of 64x64 for a frame of 16x16, its"):
        check_sizes(MASK, PairSet((Pair("a", NORMAL, low, high),)))
    with pytest.raises(CorpusError, match="the same whole number as large"):
        PairSet((Pair("a", NORMAL, low, high), Pair("b", NORMAL, low, high[:, :32, :32])))
    with pytest.raises(CorpusError, match="the same whole number as large"):
        PairSet((Pair("a", NORMAL, low, high[:, :40]),))


def test_patches_are_cut_where_their_targets_are() -> None:
    low = np.random.default_rng(0).integers(0, 255, (2, 32, 40, 3), dtype=np.uint8)
    pairs = PairSet((Pair("a", NORMAL, low, low.repeat(3, axis=1).repeat(3, axis=2)),))
    small, large, _ = pairs.draw(6, 8, np.random.default_rng(1))
    assert np.array_equal(large, small.repeat(3, axis=1).repeat(3, axis=2))
    first, following, _ = pairs.clips(3, 2, 8, np.random.default_rng(1))
    assert np.array_equal(following, first.repeat(3, axis=2).repeat(3, axis=3))
    assert replace(pairs.pairs[0]).level == pytest.approx(1.0 / 255.0), "an enlarged frame is not hard"
