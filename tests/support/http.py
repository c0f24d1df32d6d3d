"""Ways to talk to the application in tests: in process (`ApiClient`) or over a socket (`LiveServer`)."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from embedded.ports import HOST


class ApiClient:
    """`httpx.AsyncClient` on `ASGITransport`, with plain synchronous calls: `client.get(path, token=...)`."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self._portal_manager = start_blocking_portal()

    def __enter__(self) -> Self:
        self._portal: BlockingPortal = self._portal_manager.__enter__()
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://edgeloop.test")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal.call(self._http.aclose)
        self._portal_manager.__exit__(kind, error, traceback)

    def request(self, method: str, path: str, *, token: str | None = None, **options: Any) -> httpx.Response:
        """Any request; `token` becomes the bearer token."""
        headers = dict(options.pop("headers", None) or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"

        async def send() -> httpx.Response:
            return await self._http.request(method, path, headers=headers, **options)

        return self._portal.call(send)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        """PUT."""
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        """DELETE."""
        return self.request("DELETE", path, **options)


class LiveServer:
    """The application on a loopback port, its own from the start, for real clients (agents, browsers)."""

    def __init__(self, app: FastAPI) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://{HOST}:{self.port}"
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            if time.monotonic() > deadline:
                raise RuntimeError("the application did not start within 20 s")
            time.sleep(0.02)
        return self

    def settle(self) -> None:
        """Wait until no request is in work: an answer is here before the server has written down what it did."""
        deadline = time.monotonic() + 20
        while self._server.server_state.tasks:
            if time.monotonic() > deadline:
                raise RuntimeError("the application is still at work after 20 s")
            time.sleep(0.005)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
