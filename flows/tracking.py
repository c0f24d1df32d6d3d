"""Runs as MLflow shows them: an export of what the run folder holds, never the truth.

One run of the flow is one MLflow run however often it was interrupted: its id is kept in the run folder. MLflow may be
gone at any moment. Then the flow goes on, the failure is noted once, and `finish` sends everything again: parameters,
numbers of each step, learning curves, pictures, lineage, model version. Sending twice changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

from flows.run_folder import Json, RunFolder
from flows.tasks.curve import Curve
from flows.tasks.registry import DEFAULT

EXPERIMENT = "retrain"
KEPT = "mlflow.json"
_SHOWN = (".json", ".onnx", ".npz", ".png", ".svg", ".md", ".elb")
_OURS = {KEPT, "heartbeat.json"}
_BATCH = 500
_log = logging.getLogger(__name__)

Send = Callable[[Any], object]  # Any: MlflowClient


class Tracker:
    """Writes parameters, metrics and artefacts of one run; without a tracking URI it writes nothing."""

    def __init__(self, key: str, uri: str | None, model: str = DEFAULT) -> None:
        self._key, self._uri, self._model = key, uri, model
        self._client: Any = None  # MlflowClient, imported late because it takes seconds
        self._folder: RunFolder | None = None
        self._run_id = ""
        self._gone = False
        self._parameters: Json = {}
        self._tags: Json = {}

    @classmethod
    def from_environment(cls, key: str, model: str = DEFAULT) -> Tracker:
        """Uses MLFLOW_TRACKING_URI or EDGELOOP_MLFLOW_TRACKING_URI; `model` is the registered model's name."""
        uri = os.environ.get("MLFLOW_TRACKING_URI") or os.environ.get("EDGELOOP_MLFLOW_TRACKING_URI")
        return cls(key, uri, model)

    @property
    def run_id(self) -> str:
        """MLflow's id of the run, empty while there is none."""
        return self._run_id

    def open(self, folder: RunFolder, parameters: Json) -> None:
        """Begin the tracked run, or go on with the one that an earlier process began."""
        self._folder, self._parameters = folder, parameters
        self._try(self._send_parameters)

    def lineage(self, tags: Json) -> None:
        """Tag the run with what it was made of."""
        self._tags = tags
        self._try(self._send_lineage)

    def step(self, name: str, result: Json) -> None:
        """Note the plain numbers of a step."""
        self._try(lambda client: self._send_step(client, name, result))

    def finish(self) -> None:
        """Send everything again (also what was missed), close the run and register the model."""
        self._gone = False
        self._try(self._send_all)

    def fail(self) -> None:
        """Mark the run as failed; going on with it opens it again."""
        self._try(lambda client: client.set_terminated(self._run_id, "FAILED"))

    def _send_all(self, client: Any) -> None:
        folder = self._opened()
        self._send_parameters(client)
        self._send_lineage(client)
        for name in folder.steps():
            if folder.has(f"{name}.json"):
                self._send_step(client, name, folder.read_json(f"{name}.json"))
        for path in sorted(folder.path.glob("*.curve.json")):
            self._send_curve(client, path.name.removesuffix(".curve.json"), Curve.load(path))
        for path in sorted(folder.path.iterdir()):
            if path.suffix in _SHOWN and not path.name.startswith(".") and path.name not in _OURS:
                client.log_artifact(self._run_id, str(path))
        client.set_terminated(self._run_id)
        if folder.has("model.onnx"):
            self._register(client)

    def _send_parameters(self, client: Any) -> None:
        from mlflow.entities import Param

        rows = [Param(name, str(value)[:500]) for name, value in sorted(self._parameters.items())]
        known = client.get_run(self._run_id).data.params
        fresh = [row for row in rows if row.key not in known]
        if fresh:
            client.log_batch(self._run_id, params=fresh)

    def _send_lineage(self, client: Any) -> None:
        from mlflow.entities import RunTag

        if not self._tags:
            return
        rows = [RunTag(f"edgeloop.{name}", str(value)[:4_000]) for name, value in sorted(self._tags.items())]
        client.log_batch(self._run_id, tags=rows)
        self._send_data(client)

    def _send_data(self, client: Any) -> None:
        from mlflow.entities import Dataset, DatasetInput

        corpus = str(self._tags.get("corpus", ""))
        source = json.dumps({"corpus_sha256": corpus, "clips": self._tags.get("clips", "")})
        dataset = Dataset(name="corpus", digest=corpus[:36], source_type="edgeloop-corpus", source=source)
        client.log_inputs(self._run_id, [DatasetInput(dataset)])

    def _send_step(self, client: Any, name: str, result: Json) -> None:
        from mlflow.entities import Metric

        ended = int(1_000 * float(self._opened().steps().get(name, {}).get("ended", 0.0)))
        rows = [Metric(key, value, ended, 0) for key, value in _numbers(name, result)]
        self._send_metrics(client, rows)

    def _send_curve(self, client: Any, name: str, curve: Curve) -> None:
        from mlflow.entities import Metric

        rows = [Metric(f"curve.{name}.loss", loss, 0, step) for step, _, loss in curve.points if loss == loss]
        self._send_metrics(client, rows)

    def _send_metrics(self, client: Any, rows: list[Any]) -> None:
        for start in range(0, len(rows), _BATCH):
            client.log_batch(self._run_id, metrics=rows[start : start + _BATCH])

    def _register(self, client: Any) -> None:
        from mlflow.exceptions import MlflowException

        try:
            client.create_registered_model(self._model)
        except MlflowException:
            _log.debug("registered model %s is there already", self._model)
        if client.search_model_versions(f"name='{self._model}' and run_id='{self._run_id}'"):
            return
        run = client.get_run(self._run_id)
        tags = {"key": self._key, **{name: str(value)[:4_000] for name, value in self._tags.items()}}
        client.create_model_version(self._model, f"{run.info.artifact_uri}/model.onnx", self._run_id, tags=tags)

    def _try(self, use: Send) -> None:
        if not self._uri or self._gone:
            return
        try:
            use(self._connected())
        except Exception as error:  # whatever the tracking server does, the run goes on
            self._gone = True
            _log.warning(
                "MLflow at %s cannot be used (%s); the run goes on without it and tries again at its end",
                self._uri,
                type(error).__name__,
            )

    def _connected(self) -> Any:  # Any: MlflowClient
        if self._client is None:
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
            from mlflow import MlflowClient

            client = MlflowClient(tracking_uri=self._uri)
            self._run_id = self._earlier(client) or self._begun(client)
            self._client = client
        return self._client

    def _earlier(self, client: Any) -> str:
        """Id of the tracked run that an earlier process began at this server, opened again; empty without one."""
        folder = self._opened()
        if not folder.has(KEPT):
            return ""
        kept = folder.read_json(KEPT)
        if kept.get("uri") != self._uri:
            return ""
        run_id = str(kept["run_id"])
        client.update_run(run_id, status="RUNNING")
        return run_id

    def _begun(self, client: Any) -> str:
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        run = client.create_run(experiment, run_name=self._key, tags={"edgeloop.key": self._key})
        run_id = str(run.info.run_id)
        self._opened().write_json(KEPT, {"uri": self._uri, "run_id": run_id})
        return run_id

    def _opened(self) -> RunFolder:
        if self._folder is None:
            raise RuntimeError("open the tracker before it is used")
        return self._folder


def _numbers(prefix: str, value: object) -> list[tuple[str, float]]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [(prefix, float(value))]
    if isinstance(value, dict) and len(json.dumps(value, default=str)) < 20_000:
        return [pair for key, inner in value.items() for pair in _numbers(f"{prefix}.{_clean(str(key))}", inner)]
    return []


def _clean(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_. /" else "_" for letter in name)
