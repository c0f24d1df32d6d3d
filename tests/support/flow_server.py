"""The platform's twin behind HTTP, so that a flow in another process talks to it with the real client."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Annotated

import uvicorn
from fastapi import FastAPI, File, Form, Header, Request, Response, UploadFile

from contracts.wire import (
    Build,
    BuildList,
    BuildRequest,
    BundleRegistration,
    Cluster,
    ClusterList,
    EvaluationSet,
    Rollout,
    RolloutRequest,
    TrainingVectorBatch,
)
from contracts.wire.curation import EvaluationVectorBatch
from flows.errors import PlatformError
from tests.support.flow_twin import FlowPlatformTwin


class FlowServer:
    """Serves a twin on loopback while it is entered; `url` is its address."""

    def __init__(self, twin: FlowPlatformTwin) -> None:
        self.twin = twin
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(_app(twin), log_level="error", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> FlowServer:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=30)
        self._socket.close()


def _app(twin: FlowPlatformTwin) -> FastAPI:
    app = FastAPI()

    @app.exception_handler(PlatformError)
    def refused(_request: Request, error: PlatformError) -> Response:
        return Response(str(error), status_code=422)

    @app.get("/curation/v1/clusters")
    def clusters() -> ClusterList:
        return ClusterList(items=tuple(one.model_copy(update={"member_vectors": ()}) for one in twin.clusters()))

    @app.get("/curation/v1/clusters/{cluster_id}")
    def cluster(cluster_id: str) -> Cluster:
        return next(one for one in twin.clusters() if one.id == cluster_id)

    @app.post("/curation/v1/runs", status_code=202)
    def curate() -> dict[str, str]:
        twin.start_curation()
        return {}

    @app.post("/curation/v1/training-vectors")
    def training(batch: TrainingVectorBatch) -> dict[str, str]:
        twin.post_training_vectors(batch)
        return {}

    @app.post("/curation/v1/evaluation-vectors")
    def evaluation(batch: EvaluationVectorBatch) -> dict[str, str]:
        twin.post_evaluation_vectors(batch)
        return {}

    @app.post("/builds/v1/evaluation-sets")
    async def evaluation_set(request: Request) -> EvaluationSet:
        return twin.post_evaluation_set(await request.body())

    @app.get("/builds/v1/builds")
    def builds() -> BuildList:
        return BuildList(items=())

    @app.post("/builds/v1/builds")
    def build(
        meta: Annotated[str, Form()],
        model: Annotated[UploadFile, File()],
        quality: Annotated[UploadFile, File()],
        observer: Annotated[UploadFile, File()],
        idempotency_key: Annotated[str, Header()],
    ) -> Build:
        parts = [part.file.read() for part in (model, quality, observer)]
        return twin.post_build(BuildRequest.model_validate_json(meta), *parts, idempotency_key)

    @app.get("/builds/v1/builds/{build_id}")
    def one_build(build_id: str) -> Build:
        return twin.build(build_id)

    @app.get("/builds/v1/builds/{build_id}/bundle")
    def bundle(build_id: str) -> Response:
        return Response(twin.bundle(build_id), media_type="application/octet-stream")

    @app.post("/releases/v1/bundles")
    def register(request: BundleRegistration) -> dict[str, str]:
        twin.register_bundle(request)
        return {}

    @app.post("/releases/v1/rollouts")
    def rollout(request: RolloutRequest, idempotency_key: Annotated[str, Header()]) -> Rollout:
        return twin.start_rollout(request, idempotency_key)

    return app
