"""Many requests at once: everyone gets an answer, because no more are let in than there are connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from services.app import build_app
from services.kit import admission
from services.kit.settings import Settings
from tests.support.bounded import within
from tests.support.platform import Tokens

PATH = "/releases/v1/alerts"


async def ask(count: int, token: str) -> list[httpx.Response]:
    """That many requests at once."""
    transport = httpx.ASGITransport(app=build_app(("releases",)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://edgeloop.test", timeout=60) as client:
        headers = {"Authorization": f"Bearer {token}"}
        return list(await asyncio.gather(*(client.get(PATH, headers=headers) for _ in range(count))))


def test_ten_times_more_requests_than_connections_are_all_answered(platform: Settings, tokens: Tokens) -> None:
    token = tokens.operator
    (answers,) = within(20, lambda: asyncio.run(ask(200, token)))
    assert {answer.status_code for answer in answers} == {200}


def test_who_waits_too_long_is_told_to_come_again(
    platform: Settings, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "HTTP", replace(admission.HTTP, admission_s=0.05))
    token = tokens.operator

    async def full() -> httpx.Response:
        slots = admission._of_this_loop()
        for _ in range(admission.capacity()):
            await slots.acquire()
        return (await ask(1, token))[0]

    answer = asyncio.run(full())
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert "more work" in answer.json()["detail"]


def test_a_place_is_free_again_after_a_refusal_and_after_an_error(platform: Settings, tokens: Tokens) -> None:
    async def many() -> list[int]:
        refused = await ask(admission.capacity() + 5, "el_nobody_nothing")
        fine = await ask(admission.capacity() + 5, token)
        return [answer.status_code for answer in (*refused, *fine)]

    token = tokens.operator
    (codes,) = within(20, lambda: asyncio.run(many()))
    assert set(codes) == {401, 200}
