"""A run that is asked for a smaller network: trained, cut, recovered, released; killed on the way, it ends alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contracts.bundle import Bundle
from flows.data.intake.survey import survey
from flows.errors import BudgetError, FlowError
from flows.retrain import STEPS, run_retrain
from flows.retrain_cli import retrain
from flows.run_folder import Json, RunFolder
from flows.search.table import OperatorTable
from flows.steps import prune
from flows.steps.budget import Training, budget_of, check_budget
from flows.steps.context import RetrainSettings, open_context
from flows.steps.pin import pinned
from flows.tasks.vsr.architecture import Architecture
from flows.tracking import Tracker, _numbers
from tests.flows.test_retrain import clips, platform_of
from tests.support.flow_twin import FlowPlatformTwin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KEY = "p"
__all__ = ["clips"]


class Killed(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Ended:
    """A run that ended, its folder and the platform that it talked to."""

    result: Json
    folder: RunFolder
    twin: FlowPlatformTwin
    state: Path


@pytest.fixture(scope="module")
def settings(clips: Path) -> RetrainSettings:
    return RetrainSettings(
        corpus=str(clips),
        profiles=((72, 88), (136, 320)),
        targets=("npu-4t",),
        steps=(30, 100, 20),
        prune=0.85,
        entropy="on",
    )


@pytest.fixture(scope="module")
def ended(
    clips: Path, settings: RetrainSettings, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Ended, Ended, list[str]]:
    """The undisturbed run; the one that died while pruning and while recovering, and what was evaluated there."""
    found, cuts = [], list[str]()
    for deaths in ((), ("pruning", "recovering")):
        twin, state = platform_of(survey(clips).corpus), tmp_path_factory.mktemp("state")
        for death in (*deaths, ""):
            die = _dies_at(death, cuts)
            try:
                result = run_retrain(KEY, state, twin, settings, die, Tracker(KEY, None))  # type: ignore[arg-type]  # a twin
            except Killed:
                continue
        found.append(Ended(result, RunFolder(state / "runs" / KEY), twin, state))
    return found[0], found[1], cuts


def _dies_at(word: str, cuts: list[str]) -> Callable[[str, float], None]:
    def progress(what: str, share: float) -> None:
        if what.startswith("pruning:"):
            cuts.append(word)
        if word and what.startswith(word) and share >= (0.5 if word == "recovering" else 0.0):
            raise Killed

    return progress


def test_the_network_that_is_released_has_the_asked_share_of_the_chosen_one(
    ended: tuple[Ended, Ended, list[str]],
) -> None:
    run, _, _ = ended
    pruned, recovered = run.result["prune"], run.result["recover"]
    chosen, left = (Architecture.from_json(text) for text in (run.result["search"]["chosen"], pruned["architecture"]))
    table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
    large, small = (
        table.latency_us(left, "npu-4t", size) / table.latency_us(chosen, "npu-4t", size)
        for size in ("136x320", "72x88")
    )
    assert large == pruned["latency_ratio"] <= 0.85 < small, "in small frames launches are most of the time"
    assert left.parameters() / chosen.parameters() == pruned["parameters_ratio"] < 1.0
    assert pruned["taken"] == len(pruned["narrowings"]) > 0
    assert recovered["recovered"] > pruned["cut"]
    generation = run.state / "models" / KEY
    assert (generation / "model.npz").read_bytes() == run.folder.read("recovered.npz") != run.folder.read("float.npz")
    assert json.loads(run.result["recover"]["architecture"]) == json.loads(pruned["architecture"])


def test_train_and_recover_share_the_fine_tuning_budget(ended: tuple[Ended, Ended, list[str]]) -> None:
    run, _, _ = ended
    assert (run.result["train"]["steps"], run.result["recover"]["steps"]) == (60, 40)
    assert "recover, 40 steps" in run.folder.read("curves.svg").decode()


def test_a_run_that_died_while_it_pruned_and_recovered_ends_with_the_same_bytes(
    ended: tuple[Ended, Ended, list[str]],
) -> None:
    whole, killed, cuts = ended
    attempts = {name: row["attempts"] for name, row in killed.folder.steps().items()}
    assert attempts == {**dict.fromkeys(STEPS, 1), "prune": 2, "recover": 2}
    assert cuts == ["", "pruning", "recovering"], "a cut that was made is not made again"
    for name in ("prune.json", "recover.json", "pruned.npz", "recovered.npz", "model.onnx"):
        assert whole.folder.read(name) == killed.folder.read(name), name


def test_reports_notes_lineage_and_tracker_say_what_pruning_cost(ended: tuple[Ended, Ended, list[str]]) -> None:
    run, _, _ = ended
    pruned, recovered = run.result["prune"], run.result["recover"]
    sheets = [run.folder.read_json("accuracy.json")["pruning"], run.folder.read_json("release_package.json")["pruning"]]
    for sheet in sheets:
        assert (sheet["before"], sheet["cut"], sheet["recovered"]) == (
            pruned["before"], pruned["cut"], recovered["recovered"],
        )  # fmt: skip
        assert sheet["narrowings"] == pruned["narrowings"]
    said = f"{pruned['before']:.2f} dB before, {pruned['cut']:.2f} dB cut, {recovered['recovered']:.2f} dB after 40"
    texts = [run.folder.read(name).decode() for name in ("accuracy.md", "release_package.md")]
    assert all(said in text for text in (*texts, run.twin.registered[0].notes))
    assert run.twin.builds[f"build-{KEY}"].lineage["pruned"] == "0.85 by latency"
    metrics = dict([*_numbers("prune", pruned), *_numbers("recover", recovered)])
    assert {"prune.before", "prune.cut", "prune.taken", "prune.latency_ratio", "recover.recovered"} <= set(metrics)


def test_the_run_asks_for_coded_constants_and_its_bundle_has_them(ended: tuple[Ended, Ended, list[str]]) -> None:
    run, _, _ = ended
    assert run.twin.builds[f"build-{KEY}"].entropy == "on"
    bundle = Bundle.of(memoryview(run.folder.read("candidate.elb")), Path("candidate.elb"))
    assert bundle.program("npu-4t", "model").coded is not None


def test_what_is_too_little_is_refused_before_anything_is_trained(
    ended: tuple[Ended, Ended, list[str]], settings: RetrainSettings
) -> None:
    run, _, _ = ended
    context = open_context(KEY, run.state, run.twin, replace(settings, prune=0.05))  # type: ignore[arg-type]  # a twin
    with pytest.raises(FlowError, match=r"--prune 0\.05: the chosen network has 0\.\d+ .*with --prune 0\.\d+ or more"):
        prune.check_prunable(context, run.result["search"])
    with pytest.raises(FlowError, match="begun with another prune"):
        pinned(context)
    with pytest.raises(FlowError, match="begun with another prune_by"):
        pinned(replace(context, settings=replace(settings, prune_by="parameters")))
    with pytest.raises(FlowError, match="begun with another entropy"):
        pinned(replace(context, settings=replace(settings, entropy="off")))


def test_minutes_are_shared_as_steps_are(clips: Path, tmp_path: Path) -> None:
    twin = platform_of(survey(clips).corpus)
    run = open_context("m", tmp_path, twin, RetrainSettings(corpus=str(clips), budget_minutes=10, prune=0.8))  # type: ignore[arg-type]  # a twin
    seconds = {one: budget_of(run, one).seconds for one in Training}
    assert seconds[Training.FINETUNE] == pytest.approx(0.6 * 420)
    assert seconds[Training.RECOVER] == pytest.approx(0.4 * 420)
    whole = replace(run, settings=replace(run.settings, prune=None))
    assert budget_of(whole, Training.FINETUNE).seconds == pytest.approx(420)
    with pytest.raises(BudgetError, match="leave none to recover in; give 3 or more"):
        check_budget(replace(run.settings, steps=(1, 2, 1)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prune", "1.2"], "between 0 and 1"),
        (["--prune", "0.8", "--prune-by", "weight"], "write latency, parameters"),
        (["--entropy", "zip"], "write auto, on, off"),
    ],
)
def test_choices_that_are_none_are_refused_on_the_command_line(words: list[str], said: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(retrain)
    answer = CliRunner().invoke(app, ["--state", str(tmp_path), *words], env={"COLUMNS": "200"})
    assert answer.exit_code == 1
    assert said in " ".join(answer.output.split())
    assert not (tmp_path / "runs").exists()
