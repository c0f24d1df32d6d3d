"""The two health routes."""

from __future__ import annotations

from tests.support.http import ApiClient


def test_a_platform_whose_dependencies_answer_is_ready(client: ApiClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
