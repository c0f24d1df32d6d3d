"""Sessions in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.dashboard import sessions
from services.kit.settings import settings
from services.kit.streams import connection

TOKEN = "el_0011_secret-secret"


@pytest.fixture(autouse=True)
def _redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EDGELOOP_REDIS_URL", redis_url)
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_a_session_gives_its_token_back() -> None:
    session = sessions.open_session(TOKEN)
    assert sessions.find_session(session.id) == session


def test_the_store_holds_neither_token_nor_session_id() -> None:
    session = sessions.open_session(TOKEN)
    kept = b"".join(
        key + b"".join(b"".join(pair) for pair in connection().hgetall(key).items())  # type: ignore[union-attr]
        for key in connection().keys("dashboard:*")  # type: ignore[union-attr]
    )
    assert TOKEN.encode() not in kept
    assert session.id.encode() not in kept


def test_a_session_ends_after_its_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session = sessions.open_session(TOKEN)
    later = sessions.time.time() + sessions.LIMITS.session_longest_s + 1
    monkeypatch.setattr(sessions.time, "time", lambda: later)
    assert sessions.find_session(session.id) is None


def test_a_session_has_an_idle_limit() -> None:
    session = sessions.open_session(TOKEN)
    left = connection().ttl(sessions._name(session.id))
    assert 0 < int(left) <= sessions.LIMITS.session_idle_s  # type: ignore[arg-type]


@pytest.mark.parametrize("unknown", ["", "x", "0" * 43])
def test_an_unknown_id_opens_nothing(unknown: str) -> None:
    assert sessions.find_session(unknown) is None


def test_a_changed_entry_opens_nothing() -> None:
    session = sessions.open_session(TOKEN)
    connection().hset(sessions._name(session.id), "sealed", b"\0" * 60)
    assert sessions.find_session(session.id) is None
