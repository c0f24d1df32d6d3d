"""The state document as devices fetch it: signed, cacheable, monotonic, never written by a poll."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import redis
from sqlalchemy import event, text

from contracts.state import StateError, public_key, verify_state
from services.kit import known_tokens, token_cache
from services.kit.auth import revoke
from services.kit.database import engine, transaction
from services.kit.known_tokens import KNOWN
from services.kit.revocation_tasks import sweep_revocations
from services.kit.settings import settings
from services.kit.streams import connection
from services.releases import state_document, tasks
from tests.releases.conftest import OLD
from tests.releases.world import World

PATH = "/releases/v1/state"


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every SQL statement of this process while it lasts."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(engine(settings()), "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine(settings()), "before_cursor_execute", note)


def test_a_poll_with_nothing_new_is_a_304_and_writes_nothing(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    first = world.client.get(PATH, token=device.token)
    assert first.headers["cache-control"] == "public, max-age=30"
    with statements() as seen:
        again = world.client.get(PATH, token=device.token, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    written = [one for one in seen if not one.lstrip().upper().startswith("SELECT")]
    assert written == []
    assert not any("state_documents" in one for one in seen), "the cache answers"


def test_the_epoch_grows_with_every_change_and_an_older_document_is_refused(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    old = world.client.get(PATH, token=device.token).content
    world.client.post("/releases/v1/kill-switch", token=world.operator, json={"killed": True, "reason": "test"})
    new = world.state(device)
    with pytest.raises(StateError, match="older"):
        verify_state(old, public_key(device.state_key), new.epoch)


def test_without_the_cache_the_database_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    device = world.enrol(1, OLD)[0]
    epoch = world.state(device).epoch

    def down() -> redis.Redis:
        raise redis.ConnectionError("gone")

    monkeypatch.setattr(state_document, "connection", down)
    assert world.state(device).epoch == epoch


def test_a_change_that_is_not_committed_is_never_served(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    epoch = world.state(device).epoch
    with pytest.raises(RuntimeError, match="crash"):
        _publish_and_crash()
    assert world.state(device).epoch == epoch


def test_a_restored_database_does_not_go_back_to_an_old_epoch(world: World) -> None:
    before = int(time.time())
    with transaction() as session:
        session.execute(text("UPDATE releases.control SET epoch = 0"))
    with transaction() as session:
        assert state_document.publish(session).epoch >= before


def test_an_ageing_document_is_signed_again_and_a_fresh_one_is_left(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    epoch = world.state(device).epoch
    tasks.renew()
    assert world.state(device).epoch == epoch
    with transaction() as session:
        soon = datetime.now(UTC) + timedelta(hours=1)
        session.execute(text("UPDATE releases.state_documents SET expires_at = :soon"), {"soon": soon})
    tasks.renew()
    assert world.state(device).epoch > epoch


def test_a_poll_is_seen_without_a_database_write(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    world.client.get(PATH, token=device.token)
    record = world.client.get("/releases/v1/devices", token=world.operator).json()["items"][0]
    assert record["last_seen"] == world.clock.now()


def _publish_and_crash() -> None:
    with transaction() as session:
        state_document.publish(session)
        raise RuntimeError("crash before the commit")


def test_a_known_devices_poll_reads_neither_database_nor_cache(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_document, "STATE", replace(state_document.STATE, memory_s=60.0))
    device = world.enrol(1, OLD)[0]
    etag = world.client.get(PATH, token=device.token).headers["etag"]
    before = reads()
    with statements() as seen:
        for _ in range(20):
            answer = world.client.get(PATH, token=device.token, headers={"If-None-Match": etag})
            assert answer.status_code == 304
    assert seen == []
    assert reads() == before


def test_a_device_that_another_process_knows_costs_one_cache_read_and_no_statement(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_document, "STATE", replace(state_document.STATE, memory_s=60.0))
    device = world.enrol(1, OLD)[0]
    world.client.get(PATH, token=device.token)
    sweep_revocations()  # as a worker does every ten seconds
    KNOWN.clear()
    before = reads()
    with statements() as seen:
        assert world.client.get(PATH, token=device.token).status_code == 200
    assert seen == []
    assert reads() - before == 1


def test_a_wrong_secret_of_a_known_token_is_refused_from_memory_and_from_the_cache(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    world.client.get(PATH, token=device.token)
    forged = device.token[:-4] + ("AAAA" if not device.token.endswith("AAAA") else "BBBB")
    assert world.client.get(PATH, token=forged).status_code == 401
    KNOWN.clear()
    assert world.client.get(PATH, token=forged).status_code == 401


def test_a_revoked_token_leaves_the_cache_at_once_and_memory_within_its_time(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    world.client.get(PATH, token=device.token)
    with transaction() as session:
        assert revoke(session, "device", device.id) == 1
    assert world.client.get("/releases/tuf/targets/none", token=device.token).status_code == 401
    KNOWN.clear()
    assert world.client.get(PATH, token=device.token).status_code == 401


def test_memory_of_tokens_is_bounded_and_forgets_in_time(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    now = [0.0]
    monkeypatch.setattr(known_tokens, "POLL_TOKENS", replace(known_tokens.POLL_TOKENS, held=2))
    known = known_tokens.KnownTokens(lambda: now[0])
    devices = world.enrol(3, OLD)
    for device in devices:
        known.look_up(device.token)
    assert known.remembered(devices[0].token) is None, "the oldest went"
    assert known.remembered(devices[2].token) is not None
    now[0] = known_tokens.POLL_TOKENS.memory_s + 1
    assert known.remembered(devices[2].token) is None


def reads() -> int:
    """Reads that the cache has answered."""
    found = connection().info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("get", "mget", "hget", "hmget"))


def test_a_worker_keeps_the_document_in_the_cache_so_that_no_poll_comes_to_the_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_document, "STATE", replace(state_document.STATE, memory_s=0.0))
    device = world.enrol(1, OLD)[0]
    etag = world.client.get(PATH, token=device.token).headers["etag"]
    connection().delete(state_document.CACHE_KEY)  # its time is over
    tasks.refresh()
    assert connection().ttl(state_document.CACHE_KEY) > state_document.STATE.refresh_s
    with statements() as seen:
        answer = world.client.get(PATH, token=device.token, headers={"If-None-Match": etag})
    assert answer.status_code == 304
    assert seen == []


def test_an_older_document_never_replaces_a_newer_one_in_the_cache() -> None:
    older, newer = (state_document.Served(epoch, b"document") for epoch in (255, 256))
    connection().delete(state_document.CACHE_KEY)
    for served in (newer, older):
        state_document.remember(served)
    assert state_document.recall() == newer
    connection().delete(state_document.CACHE_KEY)


def test_tokens_stay_cached_for_hours_and_not_all_equally_long(world: World) -> None:
    longest = known_tokens.POLL_TOKENS.cached_s
    devices = world.enrol(6, OLD)
    for device in devices:
        world.client.get(PATH, token=device.token)
    lives = [connection().ttl(token_cache.CACHE_KEY + device.token.split("_")[1]) for device in devices]
    assert all(longest / 2 - 60 <= life <= longest for life in lives)
    assert len(set(lives)) > 1
