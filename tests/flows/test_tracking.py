"""MLflow shows a run whole: also when it was gone in the middle, also when the run was killed and went on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.artefacts.curves import curves_svg
from flows.run_folder import RunFolder
from flows.tasks.curve import Curve
from flows.tasks.registry import DEFAULT
from flows.tracking import Tracker
from tests.support.loopback_server import LoopbackServer, free_port, mlflow_server

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own imports warn about its dependencies

PARAMETERS = {"key": "r", "seed": 0, "parent": "seed"}
LINEAGE = {"parent": "seed", "corpus": "c" * 64, "clusters": "c1,c2", "code": "0.1.0", "clips": "ann"}


def test_server_that_was_never_there_is_noted_once_and_tried_again_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    tracker = Tracker("r", f"http://127.0.0.1:{free_port()}")

    def unreachable() -> None:
        tried.append(1)
        raise ConnectionError("nobody listens")

    monkeypatch.setattr(tracker, "_connected", unreachable)
    with caplog.at_level(logging.WARNING):
        tracker.open(RunFolder(tmp_path), PARAMETERS)
        for name in ("collect", "hard_set", "train"):
            tracker.step(name, {"value": 1.0})
        assert len(tried) == 1, "a run never waits for it twice"
        tracker.finish()
    assert len(tried) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert tracker.run_id == ""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LoopbackServer, str]]:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    (tmp_path / "mlflow").mkdir()
    started, url = mlflow_server(tmp_path / "mlflow")
    started.start()
    yield started, url
    started.kill()


def _finished_folder(folder: RunFolder) -> None:
    folder.step("train", lambda: {"hard_validation": 33.5})
    (folder.path / "model.onnx").write_bytes(b"model")
    Curve([(1, 0.0, 0.5), (10, 0.5, 0.25), (20, 1.0, 0.125)]).save(folder.path / "finetune.curve.json")
    folder.write("curves.svg", curves_svg({"finetune": Curve([(1, 0.0, 0.5), (20, 1.0, 0.125)])}).encode())


@pytest.mark.slow
def test_mlflow_gone_in_the_middle(tmp_path: Path, server: tuple[LoopbackServer, str]) -> None:
    from mlflow import MlflowClient

    process, url = server
    folder = RunFolder(tmp_path / "runs" / "r")
    first = Tracker("r", url)
    first.open(folder, PARAMETERS)
    first.step("collect", folder.step("collect", lambda: {"eps": 0.25}))
    process.kill()
    first.lineage(LINEAGE)
    first.step("hard_set", folder.step("hard_set", lambda: {"coverage_after": 0.75}))
    process.start()

    second = Tracker("r", url)  # the flow was killed as well; another process goes on
    second.open(folder, PARAMETERS)
    second.lineage(LINEAGE)
    _finished_folder(folder)
    for _ in range(2):  # sending it all twice changes nothing
        second.finish()
    assert second.run_id == first.run_id

    client = MlflowClient(tracking_uri=url)
    experiment = client.get_experiment_by_name("retrain")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params == {name: str(value) for name, value in PARAMETERS.items()}
    assert run.data.metrics["hard_set.coverage_after"] == 0.75, "what was missed meanwhile is there"
    assert run.data.metrics["train.hard_validation"] == 33.5
    assert run.data.tags["edgeloop.clusters"] == "c1,c2"
    assert [dataset.dataset.name for dataset in run.inputs.dataset_inputs] == ["corpus"]
    curve = client.get_metric_history(run.info.run_id, "curve.finetune.loss")
    assert [(point.step, point.value) for point in curve] == [(1, 0.5), (10, 0.25), (20, 0.125)]
    files = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"curves.svg", "model.onnx", "train.json"} <= files
    assert not {"mlflow.json", "heartbeat.json"} & files
    (version,) = client.search_model_versions(f"name='{DEFAULT}'")
    assert version.tags["parent"] == "seed"
    assert version.run_id == run.info.run_id


def test_curves_have_a_panel_each_and_nothing_is_an_error() -> None:
    curve = Curve([(1, 0.0, float("nan")), (2, 0.5, 0.5), (4, 1.0, 0.25)], retreats=1)
    drawn = curves_svg({"adapt": curve, "qat": curve, "none": Curve()})
    assert drawn.count("<polyline") == 2
    assert "adapt, 4 steps, 1 steps back" in drawn
    with pytest.raises(ValueError, match="nothing to plot"):
        curves_svg({"none": Curve()})
