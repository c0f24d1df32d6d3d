"""The platform as a flow sees it: a few HTTP calls with bounded retries, typed by contracts.wire.

Every POST here is idempotent on the platform's side (natural keys or an Idempotency-Key), so a step that died in the
middle is simply run again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from pydantic import BaseModel

from contracts.tracing import traceparent
from contracts.wire import (
    Build,
    BuildList,
    BuildRequest,
    BuildState,
    BundleRegistration,
    Cluster,
    ClusterList,
    EvaluationSet,
    EvaluationSetList,
    Rollout,
    RolloutRequest,
    TrainingVectorBatch,
)
from contracts.wire.curation import EvaluationVectorBatch
from flows.errors import PlatformError

T = TypeVar("T", bound=BaseModel)

_ENDED = {BuildState.PASSED, BuildState.BLOCKED, BuildState.REFUSED, BuildState.FAILED}


@dataclass(frozen=True)
class PlatformLimits:
    """How long and how often the platform is asked."""

    timeout_s: float = 30.0
    attempts: int = 8
    pause_s: float = 0.5
    longest_pause_s: float = 8.0
    build_wait_s: float = 600.0
    build_poll_s: float = 1.0


class Platform:
    """A client with the flow's own service token. Read both from the environment with `from_environment`."""

    def __init__(self, base_url: str, token: str, limits: PlatformLimits | None = None) -> None:
        self.limits = limits or PlatformLimits()
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=self.limits.timeout_s,
            trust_env=False,
        )

    @classmethod
    def from_environment(cls) -> Platform:
        """EDGELOOP_BASE_URL and EDGELOOP_SERVICE_TOKEN; `edgeloop up` sets both for the flows it serves.

        In a container the token may be the file `edgeloop_service_token` of the folder EDGELOOP_SECRETS_DIR.
        """
        base_url, token = os.environ.get("EDGELOOP_BASE_URL"), os.environ.get("EDGELOOP_SERVICE_TOKEN")
        folder = os.environ.get("EDGELOOP_SECRETS_DIR")
        if not token and folder and (path := Path(folder) / "edgeloop_service_token").is_file():
            token = path.read_text().strip()
        if not base_url or not token:
            raise PlatformError(
                "EDGELOOP_BASE_URL and EDGELOOP_SERVICE_TOKEN are not set; "
                "start the flow under `edgeloop up` or set them"
            )
        return cls(base_url, token)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def clusters(self) -> tuple[Cluster, ...]:
        """Clusters of the latest curation run, each with its members' vectors."""
        listed = self._get("/curation/v1/clusters", ClusterList, params={"limit": 200}).items
        return tuple(self._get(f"/curation/v1/clusters/{cluster.id}", Cluster) for cluster in listed)

    def register_observer(self, observer: bytes) -> None:
        """Tell drift how embeddings of this observer are read. The same observer changes nothing."""
        self._send(
            "POST",
            "/drift/v1/observers",
            content=observer,
            headers={"Content-Type": "application/octet-stream"},
        )

    def start_curation(self) -> None:
        """Ask for a fresh clustering and coverage."""
        self._send("POST", "/curation/v1/runs")

    def post_training_vectors(self, batch: TrainingVectorBatch) -> None:
        """Register where a training set lands in feature space. The revision makes it idempotent."""
        self._send("POST", "/curation/v1/training-vectors", json=batch.model_dump(mode="json"))

    def post_evaluation_vectors(self, batch: EvaluationVectorBatch) -> None:
        """Register where held-out clips land; training sets that hold the same clips are refused from then on."""
        self._send("POST", "/curation/v1/evaluation-vectors", json=batch.model_dump(mode="json"))

    def evaluation_sets(self) -> tuple[EvaluationSet, ...]:
        """Held-out sets that the gate can play."""
        return self._get("/builds/v1/evaluation-sets", EvaluationSetList, params={"limit": 200}).items

    def post_evaluation_set(self, archive: bytes) -> EvaluationSet:
        """Upload an npz of held-out frames. The same bytes give the same set."""
        answer = self._send(
            "POST",
            "/builds/v1/evaluation-sets",
            content=archive,
            headers={"Content-Type": "application/octet-stream"},
        )
        return EvaluationSet.model_validate(answer.json())

    def post_build(self, request: BuildRequest, model: bytes, quality: bytes, observer: bytes, key: str) -> Build:
        """Start a build; `key` makes the call repeatable."""
        answer = self._send(
            "POST",
            "/builds/v1/builds",
            data={"meta": request.model_dump_json()},
            files={
                "model": ("model.onnx", model, "application/octet-stream"),
                "quality": ("quality.onnx", quality, "application/octet-stream"),
                "observer": ("observer.npz", observer, "application/octet-stream"),
            },
            headers={"Idempotency-Key": key},
        )
        return Build.model_validate(answer.json())

    def build(self, build_id: str) -> Build:
        """A build as it stands."""
        return self._get(f"/builds/v1/builds/{build_id}", Build)

    def wait_for_build(self, build_id: str, beat: Callable[[Build], None] | None = None) -> Build:
        """Poll until the build has ended. Raises PlatformError when it takes longer than the limit."""
        deadline = time.monotonic() + self.limits.build_wait_s
        while time.monotonic() < deadline:
            build = self.build(build_id)
            if beat is not None:
                beat(build)
            if build.state in _ENDED:
                return build
            time.sleep(self.limits.build_poll_s)
        raise PlatformError(
            f"build {build_id} did not end within {self.limits.build_wait_s:.0f} s; look at the worker's log"
        )

    def production_build(self) -> Build | None:
        """The build that the fleet runs, or None before the first release."""
        builds = self._get("/builds/v1/builds", BuildList, params={"limit": 200}).items
        return next((build for build in builds if build.production), None)

    def mark_production(self, build_id: str) -> None:
        """Name the build that later candidates are judged against."""
        self._send("POST", f"/builds/v1/builds/{build_id}/production")

    def bundle(self, build_id: str) -> bytes:
        """The bundle file of a build that passed."""
        return self._send("GET", f"/builds/v1/builds/{build_id}/bundle").content

    def register_bundle(self, request: BundleRegistration) -> None:
        """Put a gated bundle into the update repository, with its notes and where it comes from."""
        self._send("POST", "/releases/v1/bundles", json=request.model_dump(mode="json"))

    def start_rollout(self, request: RolloutRequest, key: str) -> Rollout:
        """Create a rollout; with `auto_start` it needs nobody."""
        answer = self._send(
            "POST",
            "/releases/v1/rollouts",
            json=request.model_dump(mode="json"),
            headers={"Idempotency-Key": key},
        )
        return Rollout.model_validate(answer.json())

    def rollout(self, rollout_id: str) -> Rollout:
        """A rollout as it stands."""
        return self._get(f"/releases/v1/rollouts/{rollout_id}", Rollout)

    def _get(self, path: str, model: type[T], **options: object) -> T:
        return model.model_validate(self._send("GET", path, **options).json())

    def _send(self, method: str, path: str, **options: object) -> httpx.Response:
        pause = self.limits.pause_s
        problem = ""
        given = options.pop("headers", None)
        options["headers"] = {"traceparent": traceparent(), **(given if isinstance(given, dict) else {})}
        for _ in range(self.limits.attempts):
            try:
                answer = self._http.request(method, path, **options)  # type: ignore[arg-type]  # options are httpx's own
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}"
            else:
                if answer.status_code < 400:
                    return answer
                problem = f"{answer.status_code} {answer.text[:300]}"
                if answer.status_code < 500 and answer.status_code not in (409, 425, 429):
                    break
            time.sleep(pause)
            pause = min(pause * 2, self.limits.longest_pause_s)
        raise PlatformError(f"{method} {path} failed: {problem}; check that the platform is up and the token is valid")
