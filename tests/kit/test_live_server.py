"""The server that tests talk to: its port is nobody else's, and it settles only when its work is done."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI

from embedded.ports import HOST
from tests.support.http import LiveServer


def test_nobody_takes_its_port_before_it_starts() -> None:
    server = LiveServer(FastAPI())
    with pytest.raises(OSError, match="in use"):
        socket.create_server((HOST, server.port))
    with server:
        assert httpx.get(server.url, trust_env=False).status_code == 404


def test_it_settles_when_what_follows_the_answer_is_done() -> None:
    app, go_on, done = FastAPI(), threading.Event(), list[bool]()

    @app.get("/")
    def answer(after: BackgroundTasks) -> None:
        after.add_task(lambda: done.append(go_on.wait(20)))

    with LiveServer(app) as server:
        with httpx.stream("GET", server.url, trust_env=False) as answered:
            assert answered.status_code == 200
        assert done == []
        threading.Timer(0.2, go_on.set).start()
        server.settle()
        assert done == [True]
