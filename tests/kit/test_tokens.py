"""The desk: concurrent look-ups share a query, a valid token is remembered for a stated time and no longer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from services.kit import known_tokens, token_cache
from services.kit import tokens as desk_module
from services.kit.auth import issue_token, revoke
from services.kit.database import transaction
from services.kit.known_tokens import KnownTokens
from services.kit.limits import POLL_TOKENS, TOKENS
from services.kit.models import Token
from services.kit.problems import Problem, Unauthorized, Unavailable
from services.kit.settings import Settings
from services.kit.tokens import TokenDesk, look_up


@pytest.fixture(autouse=True)
def queries(platform: Settings, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ids each query asked for."""
    asked: list[int] = []

    def counted(ids: Sequence[str]) -> Sequence[Token | Exception | None]:
        asked.append(len(ids))
        return look_up(ids)

    monkeypatch.setattr(desk_module, "look_up", counted)
    return asked


def token(device: str, ttl_s: float | None = None) -> str:
    with transaction() as session:
        return issue_token(session, "device", device, ttl_s=ttl_s)


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def refused(desk: TokenDesk, presented: str) -> bool:
    try:
        asyncio.run(desk.subject(presented))
    except Unauthorized:
        return True
    return False


def test_a_revoked_token_is_refused_within_the_stated_time_and_not_before_it_must() -> None:
    clock = Clock()
    desk, presented = TokenDesk(KnownTokens(clock)), token("a")
    assert not refused(desk, presented)
    with transaction() as session:
        revoke(session, "device", "a")
    clock.now += TOKENS.remember_s - 1
    assert not refused(desk, presented)
    clock.now += 1
    assert refused(desk, presented)


def test_use_does_not_prolong_the_memory() -> None:
    clock = Clock()
    desk, presented = TokenDesk(KnownTokens(clock)), token("b")
    asyncio.run(desk.subject(presented))
    with transaction() as session:
        revoke(session, "device", "b")
    for _ in range(int(TOKENS.remember_s) - 1):
        clock.now += 1
        assert not refused(desk, presented)
    clock.now += 1
    assert refused(desk, presented)


def test_an_expiry_is_kept_to_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, presented = TokenDesk(KnownTokens()), token("c", ttl_s=600)
    assert not refused(desk, presented)
    later = known_tokens.time.time() + 601
    monkeypatch.setattr(known_tokens.time, "time", lambda: later)
    assert refused(desk, presented)


def test_a_wrong_secret_is_refused_also_while_the_right_one_is_remembered() -> None:
    desk, presented = TokenDesk(KnownTokens()), token("d")
    assert not refused(desk, presented)
    assert refused(desk, presented[:-2] + "zz")
    assert not refused(desk, presented)


@pytest.mark.parametrize("presented", ["", "nonsense", "el__", "el_x_", "el_" + "x" * 5_000])
def test_what_is_no_token_costs_no_query(queries: list[int], presented: str) -> None:
    desk = TokenDesk(KnownTokens())
    assert refused(desk, presented)
    assert sum(queries) <= 1


def test_concurrent_look_ups_share_queries(queries: list[int]) -> None:
    many = [token(secrets.token_hex(4)) for _ in range(60)]
    desk = TokenDesk(KnownTokens())

    async def all_at_once() -> list[object]:
        return list(await asyncio.gather(*(desk.subject(each) for each in many)))

    assert len(set(map(str, asyncio.run(all_at_once())))) == 60
    assert sum(queries) == 60
    assert len(queries) < 10


def test_no_more_than_the_stated_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_tokens, "POLL_TOKENS", replace(POLL_TOKENS, held=5))
    memory = KnownTokens()
    desk = TokenDesk(memory)
    for presented in [token(secrets.token_hex(4)) for _ in range(12)]:
        asyncio.run(desk.subject(presented))
    assert len(memory) == 5


def test_a_database_that_is_down_is_said_and_nobody_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(ids: Sequence[str]) -> Sequence[Token | Exception | None]:
        return [Unavailable("the database does not answer") for _ in ids]

    monkeypatch.setattr(desk_module, "look_up", down)
    with pytest.raises(Problem) as problem:
        asyncio.run(TokenDesk(KnownTokens()).subject(token("e")))
    assert problem.value.status == 503


def test_both_guards_share_one_memory_and_each_keeps_its_own_time(queries: list[int]) -> None:
    clock = Clock()
    memory, presented = KnownTokens(clock), token("f")
    desk = TokenDesk(memory)
    memory.look_up(presented)
    assert not refused(desk, presented)
    assert queries == [], "the poll's check is fresh enough for the desk"
    clock.now += TOKENS.remember_s
    with transaction() as session:
        revoke(session, "device", "f")
    assert refused(desk, presented), "for the desk the check is too old"
    assert memory.remembered(presented) is None, "what the desk found out holds for polls too"


def test_a_check_that_another_process_made_is_as_old_as_it_is(
    queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, presented = Clock(), token("g")
    KnownTokens(clock).look_up(presented)
    recall = token_cache.recall

    def older(token_id: str) -> token_cache.Json | None:
        found = recall(token_id)
        return found and {**found, "checked": found["checked"] - TOKENS.remember_s}

    monkeypatch.setattr(token_cache, "recall", older)
    other = KnownTokens(clock)
    assert other.look_up(presented).id == "g"
    assert other.remembered(presented) is not None
    assert not refused(TokenDesk(other), presented)
    assert queries == [1], "the desk asked the database itself"
