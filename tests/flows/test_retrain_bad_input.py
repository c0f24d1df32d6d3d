"""What goes wrong on the way of a retrain run: a clear message, the last good state kept, and the run goes on."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.errors import CorpusError
from flows.data.pairs import Pair, PairSet, make_pairs
from flows.errors import BudgetError, FlowError, StepError, StorageError
from flows.inference import cpu_session
from flows.platform import Platform
from flows.quant.qat import qat
from flows.retrain import _Stepper, run_retrain
from flows.retrain_cli import retrain
from flows.run_folder import RunFolder
from flows.run_pulse import RunState, read_beat, to_resume
from flows.steps import hard, learn
from flows.steps.budget import Training, budget_of, check_budget
from flows.steps.context import RetrainSettings, RunContext, open_context, parse_steps
from flows.steps.hard import TrainingPairs
from flows.steps.pin import pinned
from flows.tasks.curve import Curve, curve_of
from flows.tasks.training import RETREATS, Budget, Loop, TrainingError
from flows.tasks.vsr.architecture import HAND_MADE, Architecture, Stage
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tracking import Tracker
from tests.flows.test_intake import _encode, _licensed, _pictures, _video

NOBODY = Platform("http://127.0.0.1:9", "t")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two people, one video each, with a licence for the folder."""
    clips = tmp_path / "clips"
    _video(clips / "ann.mp4", 1, (128, 128), frames=12)
    _video(clips / "zoe.mp4", 2, (128, 128), frames=12)
    _licensed(clips)
    return clips


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:64, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))


def _context(folder: Path, state: Path, **changes: object) -> RunContext:
    settings = replace(RetrainSettings(corpus=str(folder)), **changes)  # type: ignore[arg-type]  # names checked by the dataclass
    return open_context("r", state, NOBODY, settings)


# the corpus


def test_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    state = tmp_path / "state"
    with pytest.raises(CorpusError, match="no video found"):
        run_retrain("r", state, NOBODY, RetrainSettings(corpus=str(tmp_path / "none")), None, Tracker("r", None))
    beat = read_beat(state / "runs" / "r")
    assert beat is not None
    assert (beat.state, "no video found" in beat.message) == (RunState.FAILED, True)


def test_one_clip(tmp_path: Path) -> None:
    _video(tmp_path / "clips" / "alone.mp4")
    _licensed(tmp_path / "clips")
    with pytest.raises(CorpusError, match=r"alone\.mp4 is the only usable video.*add a video"):
        _context(tmp_path / "clips", tmp_path / "state")


def _pairs_of(run: RunContext) -> dict[str, tuple[int, ...]]:
    clips = [clip for clip, _ in run.training_clips]
    return {pair.clip: pair.low.shape for pair in make_pairs(clips, [NORMAL]).pairs}


def test_vertical_and_odd_sized_video(folder: Path, tmp_path: Path) -> None:
    _encode(folder / "tall.mkv", _pictures(261, 131, 12), pixels="bgr0")
    run = _context(folder, tmp_path / "state")
    assert _pairs_of(run)["tall"][1:3] == (130, 64)
    assert any("tall.mkv" in finding and "vertical" in finding for finding in run.findings)


def test_variable_frame_rate(folder: Path, tmp_path: Path) -> None:
    _encode(folder / "uneven.mkv", _pictures(128, 128, 6), pixels="bgr0", times=[0, 40, 80, 400, 440, 480])
    run = _context(folder, tmp_path / "state")
    assert _pairs_of(run)["uneven"][0] == 6
    assert any("uneven.mkv" in finding and "frame rate varies" in finding for finding in run.findings)


def test_ten_bit_video(folder: Path, tmp_path: Path) -> None:
    _encode(folder / "deep.mkv", _pictures(128, 128, 6), pixels="yuv420p10le")
    run = _context(folder, tmp_path / "state")
    assert _pairs_of(run)["deep"][1:] == (64, 64, 3)
    assert any("deep.mkv" in finding and "10-bit" in finding for finding in run.findings)


def test_corrupt_file_in_the_folder(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "broken.mp4").write_bytes(b"this is no video" * 100)
    with caplog.at_level(logging.WARNING):
        run = _context(folder, tmp_path / "state")
    assert {clip.id for clip in run.corpus.clips} == {"ann", "zoe"}
    assert "broken.mp4: left out" in caplog.text
    assert "remove or replace the file" in caplog.text


def test_licence_missing(folder: Path, tmp_path: Path) -> None:
    (folder / "LICENCES.json").write_text('{"ann": "CC0", "zoe": "CC0"}')
    _video(folder / "eve.mp4", 3, (128, 128), frames=12)
    run = _context(folder, tmp_path / "state")
    assert {clip.id for clip in run.corpus.clips} == {"ann", "zoe"}
    assert any("eve.mp4: left out: its licence is not stated" in finding for finding in run.findings)
    assert {clip.id for clip in _context(folder, tmp_path / "s2", unlicensed=True).corpus.clips} == {
        "ann",
        "eve",
        "zoe",
    }
    (folder / "LICENCES.json").unlink()
    with pytest.raises(CorpusError, match=r"none of 3 videos[\s\S]*licence is not stated[\s\S]*--unlicensed"):
        _context(folder, tmp_path / "s3")


def test_corpus_that_changed_between_kill_and_resume(folder: Path, tmp_path: Path) -> None:
    first = pinned(_context(folder, tmp_path / "state"))
    assert pinned(_context(folder, tmp_path / "state")).parent.name == first.parent.name
    _video(folder / "ann.mp4", 9, (128, 128), frames=12)
    with pytest.raises(FlowError, match=r"run r was begun with another corpus .*begin a new run"):
        pinned(_context(folder, tmp_path / "state"))


# the budget


@pytest.mark.parametrize("minutes", [0.0, -1.0, 0.1, float("nan")])
def test_budget_that_trains_nothing_is_refused_before_anything_is_done(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"--budget-minutes 0\.2 or more"):
        run_retrain("r", tmp_path, NOBODY, RetrainSettings(budget_minutes=minutes), None, Tracker("r", None))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("text", ["", "1,2", "a,b,c", "1,2,0", "1,2,3,4"])
def test_steps_that_are_not_three_numbers_are_refused(text: str) -> None:
    with pytest.raises(FlowError, match="steps"):
        parse_steps(text)


def test_setting_in_the_environment_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELOOP_RETRAIN_BUDGET_MINUTES", "five")
    with pytest.raises(FlowError, match="EDGELOOP_RETRAIN_BUDGET_MINUTES='five' is no number"):
        RetrainSettings.from_environment()


def test_budget_too_small_to_finish_one_epoch(pairs: PairSet, folder: Path, tmp_path: Path) -> None:
    many = PairSet(pairs.pairs * 40)
    training = TrainingPairs(many, many, pairs, pairs)
    searched = {"chosen": HAND_MADE.to_json()}
    short = pinned(_context(folder, tmp_path / "state", steps=(1, 2, 1)))
    (short.folder.path / "supernet.npz").write_bytes(short.parent.supernet.read_bytes())
    with pytest.raises(BudgetError, match=r"ended after 2 steps.*40 recordings takes 4.*--key r and --steps with 4"):
        learn.train(short, training, searched)
    assert short.folder.has("finetune.pt"), "what was learned is kept"
    assert not short.folder.has("float.npz")
    longer = pinned(_context(folder, tmp_path / "state", steps=(1, 4, 1)))
    assert learn.train(longer, training, searched)["steps"] == 4
    whole = pinned(_context(folder, tmp_path / "undisturbed", steps=(1, 4, 1)))
    (whole.folder.path / "supernet.npz").write_bytes(whole.parent.supernet.read_bytes())
    assert Curve.load(curve_of(longer.folder.path / "finetune.pt")).points[0][0] == 1
    assert learn.train(whole, training, searched)["steps"] == 4


def test_a_budget_in_steps_is_the_same_for_everybody(folder: Path, tmp_path: Path) -> None:
    run = _context(folder, tmp_path / "state", steps=(3, 5, 7))
    assert [budget_of(run, one).steps for one in (Training.ADAPT, Training.FINETUNE, Training.QAT)] == [3, 5, 7]
    pruning = replace(run, settings=replace(run.settings, prune=0.8))
    assert [budget_of(pruning, one).steps for one in Training] == [3, 3, 2, 7]
    check_budget(run.settings)


# numbers


def test_dead_channel(pairs: PairSet) -> None:
    torch.manual_seed(0)
    net = VsrNet(Architecture(8, (Stage(1, 8),)))
    with torch.no_grad():
        for conv in (net.head, net.blocks[0].expand):
            conv.weight[3].zero_()
            conv.bias[3] = -0.5  # ReLU never opens
        net.blocks[0].project.weight[5].zero_()
        net.blocks[0].project.bias[5] = 0.0
    made = qat(net, pairs, None, Budget(steps=3))
    assert made.agreement.ok
    session = cpu_session(made.model)
    (out,) = session.run(None, {"x": np.zeros((1, 3, 32, 32), np.float32)})
    assert np.isfinite(out).all()
    assert abs(evaluate(made.model, pairs).psnr_y - evaluate(net, pairs).psnr_y) < 1.0


def _parabola(
    spoil: Callable[[int], float], checkpoint: Path | None = None
) -> tuple[Loop, Callable[[int, float], Tensor]]:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    loop = Loop({"w": weight}, Budget(steps=40), checkpoint=checkpoint)
    return loop, lambda step, _share: (weight**2).sum() * spoil(step)


def test_nan_loss_once_steps_back_and_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def spoil(step: int) -> float:
        seen.append(step)
        return float("nan") if seen.count(20) == 1 and step == 20 else 1.0

    loop, loss = _parabola(spoil, tmp_path / "run.pt")
    loop.run(loss)
    assert loop.curve.retreats == 1
    assert loop.step == 40
    assert bool(torch.isfinite(loop.parameters["w"]).all())
    assert Curve.load(tmp_path / "run.curve.json").retreats == 1


def test_nan_loss_that_stays_is_given_up_with_the_last_good_state_kept(tmp_path: Path) -> None:
    loop, loss = _parabola(lambda step: float("nan") if step == 20 else 1.0, tmp_path / "run.pt")
    with pytest.raises(TrainingError, match=rf"loss is nan at step 20, also after {RETREATS} steps back.*run\.pt"):
        loop.run(loss)
    kept = torch.load(tmp_path / "run.pt", weights_only=True)
    assert bool(torch.isfinite(kept["parameters"]["w"]).all())
    again, healthy = _parabola(lambda _step: 1.0, tmp_path / "run.pt")
    again.run(healthy)
    assert again.step == 40, "with the data corrected the same run goes on"


def test_gradient_that_is_not_finite_never_reaches_the_weights() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    loop = Loop({"w": weight}, Budget(steps=5))
    with pytest.raises(TrainingError, match="the gradient is"):
        loop.run(lambda _step, _share: weight.abs().sqrt().sum())  # its slope at zero is infinite
    assert weight.item() == 0.0


# the disk


def _full(path: Path) -> None:
    """Whatever is written to `path` meets a full disk: the kernel's own ENOSPC."""
    path.symlink_to("/dev/full")


def test_disk_full_while_writing_a_checkpoint(pairs: PairSet, tmp_path: Path) -> None:
    whole, loss = _parabola(lambda _step: 1.0)
    whole.run(loss)
    path, calls = tmp_path / "run.pt", [0]

    def fills_up(step: int) -> float:
        calls[0] += 1
        if step == 20 and not (tmp_path / "run.part").is_symlink():
            _full(tmp_path / "run.part")
        return 1.0

    loop, spoiled = _parabola(fills_up, path)
    with pytest.raises(StorageError, match=r"no room left to write run\.pt.*free some space and start the same run"):
        loop.run(spoiled)
    assert not (tmp_path / "run.part").is_symlink(), "no half file is left behind"
    kept = torch.load(path, weights_only=True)["step"]
    assert 0 < kept <= 20
    again, healthy = _parabola(lambda _step: 1.0, path)
    again.run(healthy)
    assert torch.equal(again.parameters["w"], whole.parameters["w"]), "it goes on as if nothing had happened"


def test_disk_full_while_writing_a_result(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    folder.write("model.onnx", b"good")
    _full(folder.path / ".model.onnx.part")
    with pytest.raises(StorageError, match=r"no room left to write model\.onnx"):
        folder.write("model.onnx", b"better")
    assert folder.read("model.onnx") == b"good"
    assert folder.write("model.onnx", b"better").read_bytes() == b"better"


def test_damaged_result_and_damaged_checkpoint_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    (folder.path / "train.json").write_bytes(b"\x00\x00")
    with pytest.raises(FlowError, match=r"train\.json of run r is damaged.*remove it"):
        folder.step("train", dict)
    (folder.path / "finetune.pt").write_bytes(b"\x00" * 64)
    loop, loss = _parabola(lambda _step: 1.0, folder.path / "finetune.pt")
    with pytest.raises(TrainingError, match=r"finetune\.pt cannot be read.*remove it"):
        loop.run(loss)


# programs beside it


def test_device_process_that_cannot_start_is_said_and_the_run_goes_on_later(folder: Path, tmp_path: Path) -> None:
    run = pinned(_context(folder, tmp_path / "state"))
    broken = replace(run, lab_command=("/bin/false",))
    step = _Stepper(broken, Tracker("r", None))
    with pytest.raises(StepError, match=r"step operators of run r: .*start the run again"):
        step("operators", lambda: learn.measure(broken))
    assert not run.folder.has("operators.json")


def test_command_prints_a_message_and_no_traceback(tmp_path: Path) -> None:
    import typer

    app = typer.Typer()
    app.command()(retrain)
    made = CliRunner().invoke(app, ["--state", str(tmp_path), "--budget-minutes", "0.01"], env={"COLUMNS": "200"})
    assert made.exit_code == 1
    assert "trains nothing" in made.output
    assert "Traceback" not in made.output
    none = CliRunner().invoke(app, ["--state", str(tmp_path), "--resume"])
    assert none.exit_code == 1
    assert "leave out --resume" in " ".join(none.output.split())
    listed = CliRunner().invoke(app, ["--state", str(tmp_path), "--list", "--json"])
    assert json.loads(listed.stdout) == []


def test_full_disk_is_found_inside_what_torch_raises() -> None:
    from flows.storage import _is_full

    inner = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    outer = RuntimeError("PytorchStreamWriter failed writing file")
    outer.__cause__ = inner
    assert _is_full(outer)
    assert not _is_full(RuntimeError("other"))
    assert to_resume(Path("/nowhere"), 1.0) is None


def test_prepared_pairs_need_no_room_and_a_damaged_file_is_made_again(
    pairs: PairSet, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, made = pinned(_context(folder, tmp_path / "state")), TrainingPairs(pairs, pairs, pairs, pairs)
    calls: list[int] = []

    def prepare(_run: RunContext, _hard: object) -> TrainingPairs:
        calls.append(1)
        return made

    monkeypatch.setattr(hard, "training_pairs", prepare)
    part = run.folder.path / f".{hard.PREPARED}.part"
    _full(part)
    assert hard.prepared_pairs(run, {}) is made
    assert "no room left to write pairs.bin" in caplog.text
    hard.prepared_pairs(run, {})
    assert np.array_equal(hard.prepared_pairs(run, {}).hard.pairs[0].high, pairs.pairs[0].high)
    assert len(calls) == 2, "the third time they are mapped"
    (run.folder.path / hard.PREPARED).write_bytes(b"half")
    assert hard.prepared_pairs(run, {}) is made
    hard.forget_pairs(run)
    hard.forget_pairs(run)
    assert not run.folder.has(hard.PREPARED)
