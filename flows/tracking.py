"""Runs as MLflow shows them: an export of what the run folder holds, never the truth.

MLflow may be gone at any moment. Then the run goes on, the failure is noted once, and `finish` tries again.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from flows.run_folder import Json

EXPERIMENT = "retrain"
MODEL_NAME = "vsr-x2"
_log = logging.getLogger(__name__)


class Tracker:
    """Writes parameters, metrics and artefacts of one run; without a tracking URI it writes nothing."""

    def __init__(self, key: str, uri: str | None) -> None:
        self._key, self._uri = key, uri
        self._client: Any = None  # MlflowClient, imported late because it takes seconds
        self._run_id = ""

    @classmethod
    def from_environment(cls, key: str) -> Tracker:
        """Uses MLFLOW_TRACKING_URI or EDGELOOP_MLFLOW_TRACKING_URI."""
        return cls(key, os.environ.get("MLFLOW_TRACKING_URI") or os.environ.get("EDGELOOP_MLFLOW_TRACKING_URI"))

    @property
    def run_id(self) -> str:
        """MLflow's id of the run, empty while there is none."""
        return self._run_id

    def step(self, name: str, result: Json) -> None:
        """Note the plain numbers of a step."""
        numbers = dict(_numbers(name, result))
        self._try(lambda client: [client.log_metric(self._run_id, key, value) for key, value in numbers.items()])

    def finish(self, folder: Path) -> None:
        """Upload the artefacts, close the run and register the model."""
        self._try(lambda client: self._upload(client, folder))

    def _upload(self, client: Any, folder: Path) -> None:  # Any: MlflowClient
        for path in sorted(folder.iterdir()):
            if path.suffix in (".json", ".onnx", ".npz", ".png", ".svg", ".md") and not path.name.startswith("."):
                client.log_artifact(self._run_id, str(path))
        client.set_terminated(self._run_id)
        self._register(client)

    def _register(self, client: Any) -> None:  # Any: MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            client.create_registered_model(MODEL_NAME)
        except MlflowException:
            _log.debug("registered model %s is there already", MODEL_NAME)
        run = client.get_run(self._run_id)
        client.create_model_version(
            MODEL_NAME, f"{run.info.artifact_uri}/model.onnx", self._run_id, tags={"key": self._key}
        )

    def _try(self, use: Any) -> None:  # Any: a callable that takes MlflowClient
        if not self._uri:
            return
        try:
            use(self._connected())
        except Exception as error:  # whatever the tracking server does, the run goes on
            _log.warning(
                "MLflow at %s cannot be used (%s); the run goes on without it",
                self._uri,
                type(error).__name__,
            )

    def _connected(self) -> Any:  # Any: MlflowClient
        if self._client is None:
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
            from mlflow import MlflowClient

            client = MlflowClient(tracking_uri=self._uri)
            found = client.get_experiment_by_name(EXPERIMENT)
            experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
            run = client.create_run(experiment, run_name=self._key, tags={"edgeloop.key": self._key})
            self._client, self._run_id = client, run.info.run_id
        return self._client


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
