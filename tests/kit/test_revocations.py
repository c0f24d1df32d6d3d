"""A token that is revoked while the cache is down opens the polled route for a stated time more, and no longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from sqlalchemy import event, text

from services.kit import revocations, token_cache
from services.kit.auth import issue_token, revoke
from services.kit.database import engine, transaction
from services.kit.known_tokens import KnownTokens
from services.kit.limits import POLL_TOKENS, REVOCATIONS
from services.kit.problems import Unauthorized
from services.kit.revocation_tasks import sweep_revocations
from services.kit.settings import Settings
from services.kit.streams import connection


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _empty(platform: Settings) -> None:
    connection().flushdb()
    with transaction() as session:
        session.execute(text("DELETE FROM kit.tokens"))


def token(device: str) -> str:
    with transaction() as session:
        return issue_token(session, "device", device)


def in_cache(presented: str) -> bool:
    return bool(connection().exists(token_cache.CACHE_KEY + presented.split("_")[1]))


@contextmanager
def cache_down(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing reaches Redis."""

    def refuse() -> redis.Redis:
        raise redis.ConnectionError("down")

    with monkeypatch.context() as patch:
        patch.setattr(token_cache, "connection", refuse)
        yield


def revoked_while_down(monkeypatch: pytest.MonkeyPatch, memory: KnownTokens, presented: str) -> None:
    memory.look_up(presented)
    assert in_cache(presented)
    with cache_down(monkeypatch), transaction() as session:
        assert revoke(session, "device", "d") == 1
    assert in_cache(presented), "the cache missed it"


def accepted(memory: KnownTokens, presented: str) -> bool:
    """As the polled route asks: memory, else the cache, else the database."""
    if memory.remembered(presented) is not None:
        return True
    try:
        memory.look_up(presented)
    except Unauthorized:
        return False
    return True


def mark_is(seconds_ago: float) -> None:
    token_cache.move_mark(time.time() - seconds_ago)


def test_the_worker_takes_out_what_the_cache_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, presented = Clock(), token("d")
    memory = KnownTokens(clock)
    sweep_revocations()
    revoked_while_down(monkeypatch, memory, presented)
    assert sweep_revocations() == 1
    assert not in_cache(presented)
    clock.now += POLL_TOKENS.memory_s + 1
    assert not accepted(memory, presented)


def test_without_a_worker_the_bound_is_memory_and_the_lateness_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, presented = Clock(), token("d")
    memory = KnownTokens(clock)
    mark_is(0)
    revoked_while_down(monkeypatch, memory, presented)
    clock.now += POLL_TOKENS.memory_s + 1
    mark_is(REVOCATIONS.late_s + 1)
    assert not accepted(memory, presented)
    assert not accepted(KnownTokens(clock), presented), "nor in a process that starts now"
    assert token_cache.mark() == pytest.approx(time.time(), abs=5)


def test_the_bound_is_minutes_not_hours() -> None:
    assert POLL_TOKENS.memory_s + REVOCATIONS.late_s <= 240
    assert REVOCATIONS.sweep_s < REVOCATIONS.late_s < REVOCATIONS.overlap_s


def test_a_cache_that_comes_back_with_an_older_copy_is_swept_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    presented = token("d")
    KnownTokens(Clock()).look_up(presented)
    mark_is(3_600)
    copy = {key: connection().dump(key) for key in (*connection().scan_iter(token_cache.CACHE_KEY + "*"), b"mark")}
    kept = {key: value for key, value in copy.items() if value is not None}
    with transaction() as session:
        revoke(session, "device", "d")
        session.execute(text("UPDATE kit.tokens SET revoked_at = now() - interval '30 minutes'"))
    sweep_revocations()
    connection().flushdb()
    for key, value in kept.items():
        connection().restore(key, 3_600_000, value)
    mark_is(3_600)
    assert in_cache(presented)
    assert not accepted(KnownTokens(Clock()), presented)


def test_a_cache_that_lost_everything_is_swept_from_the_oldest_entry_that_it_could_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    presented = token("d")
    revoked_while_down(monkeypatch, KnownTokens(Clock()), presented)
    with transaction() as session:
        session.execute(text("UPDATE kit.tokens SET revoked_at = now() - interval '5 hours'"))
    assert token_cache.mark() is None
    assert not accepted(KnownTokens(Clock()), presented)


def test_a_look_up_that_remembered_just_after_the_revocation_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    presented = token("d")
    KnownTokens(Clock()).look_up(presented)
    found = token_cache.recall(presented.split("_")[1])
    assert found is not None
    with transaction() as session:
        revoke(session, "device", "d")
    sweep_revocations()
    token_cache.remember(presented.split("_")[1], found, 3_600)  # it had read the database before
    assert in_cache(presented)
    assert sweep_revocations() == 1
    assert not in_cache(presented)


def test_a_steady_poll_reads_the_cache_once_at_most_and_the_database_never() -> None:
    clock, presented = Clock(), token("d")
    memory = KnownTokens(clock)
    sweep_revocations()
    memory.look_up(presented)
    statements: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda *given: statements.append(given[2]))
    before = _reads()
    for _ in range(20):
        assert accepted(memory, presented)
    assert _reads() == before
    clock.now += POLL_TOKENS.memory_s + 1
    assert accepted(memory, presented)
    assert _reads() == before + 1
    assert statements == []


def test_a_database_that_is_down_lets_devices_poll_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be revoked while it is down."""
    presented = token("d")
    KnownTokens(Clock()).look_up(presented)
    mark_is(REVOCATIONS.late_s + 1)

    def down() -> object:
        raise redis.ConnectionError("or whatever a database raises")

    monkeypatch.setattr(revocations, "transaction", down)
    assert accepted(KnownTokens(Clock()), presented)


def _reads() -> int:
    found = connection().info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("get", "mget", "exists"))
