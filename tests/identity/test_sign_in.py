"""Signing in with a password: what it opens, what it never tells, and how guessing is slowed down."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from argon2 import PasswordHasher

from services.identity import failures, passwords
from services.identity.errors import Locked
from services.identity.limits import LOCK
from services.identity.models import AccountRow
from services.kit.database import transaction
from services.kit.models import Token
from tests.identity.conftest import GOOD, People
from tests.support.http import ApiClient
from tests.support.platform import Tokens


def attempt(client: ApiClient, name: str, password: str) -> tuple[int, dict[str, object]]:
    answer = client.post("/identity/v1/sessions", json={"name": name, "password": password})
    return answer.status_code, answer.json()


def test_a_right_password_opens_what_the_role_allows(people: People, client: ApiClient) -> None:
    token = people.enter("vera", "viewer")
    assert people.me(token).json()["role"] == "viewer"
    assert client.get("/releases/v1/rollouts", token=token).status_code == 200
    assert client.get("/identity/v1/accounts", token=token).status_code == 403


def test_the_name_is_taken_in_any_case_and_with_spaces_around(people: People, client: ApiClient) -> None:
    people.add("mixed", "viewer")
    assert attempt(client, "  MiXed ", GOOD)[0] == 201


def test_wrong_password_unknown_name_and_disabled_account_get_one_answer(people: People, client: ApiClient) -> None:
    people.add("known", "viewer")
    people.add("disabled", "viewer")
    assert people.change("disabled", disabled=True).status_code == 200
    answers = [attempt(client, "known", "wrong"), attempt(client, "nobody", "wrong"), attempt(client, "disabled", GOOD)]
    for status, body in answers:
        body.pop("trace_id")
        assert (status, body) == (401, answers[0][1])


def test_an_unknown_name_costs_the_same_work_as_a_known_one(
    people: People, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.add("timed", "viewer")
    passwords.verify("warm", None)
    work: list[str] = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]
            work.append(str(hash).split("$")[3])  # the parameters
            return super().verify(hash, password)  # type: ignore[return-value]

        def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
            work.append("hash")
            return super().hash(password, salt=salt)

    plain = passwords.HASHER
    counting = Counting(plain.time_cost, plain.memory_cost, plain.parallelism)
    passwords._stand_in(counting)
    monkeypatch.setattr(passwords, "HASHER", counting)
    seen = []
    for name in ("timed", "no-such-name"):
        work.clear()
        assert attempt(client, name, "wrong-password")[0] == 401
        seen.append(list(work))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1


def test_the_default_hash_is_argon2id_of_64_mib() -> None:
    hasher = PasswordHasher()
    assert hasher.type.name == "ID"
    assert hasher.memory_cost >= 64 * 1024
    assert hasher.time_cost >= 3


def test_a_hash_of_weaker_parameters_is_renewed_at_the_next_sign_in(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.add("older", "viewer")
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    people.sign_in("older")
    with transaction() as session:
        assert "m=16,t=2,p=1" in (session.get_one(AccountRow, "older").password_hash or "")


@pytest.mark.parametrize("name", ["lock-known", "lock-unknown"])
def test_guessing_is_locked_out_for_known_and_unknown_names_alike(people: People, client: ApiClient, name: str) -> None:
    if name == "lock-known":
        people.add(name, "viewer")
    statuses = [attempt(client, name, f"guess-{number}")[0] for number in range(LOCK.free)]
    assert statuses == [401] * LOCK.free
    answer = client.post("/identity/v1/sessions", json={"name": name, "password": GOOD})
    assert answer.status_code == 429  # also with the right password
    assert 1 <= int(answer.headers["retry-after"]) <= LOCK.first_s
    assert "wait" in answer.json()["detail"]


def test_the_wait_doubles_up_to_its_bound_and_is_forgotten_after_a_day(platform: object) -> None:
    now, waits = datetime.now(UTC), []
    with transaction() as session:
        for _ in range(LOCK.free):
            failures.begin_try(session, "patient", now)
        for _ in range(12):
            with pytest.raises(Locked) as caught:
                failures.begin_try(session, "patient", now)
            waits.append(int(caught.value.headers["Retry-After"]))
            now += timedelta(seconds=waits[-1])
            failures.begin_try(session, "patient", now)
        assert waits[:3] == [2, 4, 8]
        assert waits[-1] == LOCK.longest_s
        assert failures.begin_try(session, "patient", now + timedelta(seconds=LOCK.forget_s + 1)) == 1


def test_tries_that_come_at_once_are_all_counted(people: People, client: ApiClient) -> None:
    people.add("crowd", "viewer")
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: attempt(client, "crowd", f"guess-{number}")[0], range(24)))
    assert answers.count(401) <= LOCK.free
    assert answers.count(429) == 24 - answers.count(401)


def test_a_right_password_ends_the_count(people: People, client: ApiClient) -> None:
    people.add("typist", "viewer")
    for _ in range(3):
        for number in range(LOCK.free - 1):
            assert attempt(client, "typist", f"typo-{number}")[0] == 401
        assert attempt(client, "typist", GOOD)[0] == 201


@pytest.mark.parametrize(
    ("password", "word"),
    [
        ("short", "characters"),
        ("x" * 257, "characters"),
        ("aaaaaaaaaaaaab", "different"),
        ("password123456", "well-known"),
        ("Qwertyuiop!!2026", "well-known"),
        ("abcdefghijklmnop", "well-known"),
        ("weakling-2026-!", "well-known"),
    ],
)
def test_a_password_that_is_easy_to_guess_is_refused_with_the_reason(
    people: People, client: ApiClient, password: str, word: str
) -> None:
    body = {"name": "weakling", "role": "viewer", "password": password}
    answer = client.post("/identity/v1/accounts", token=people.ruler, json=body)
    assert answer.status_code == 422
    assert password not in answer.text
    if len(password) <= 256:
        assert word in answer.json()["detail"]


def test_no_password_is_kept_or_written_down(people: People, client: ApiClient, tokens: Tokens) -> None:
    people.enter("secretive", "viewer")
    with transaction() as session:
        assert GOOD not in (session.get_one(AccountRow, "secretive").password_hash or "")
    trail = client.get("/releases/v1/audit", token=tokens.operator, params={"limit": 200}).text
    assert "account:secretive" in trail
    assert GOOD not in trail
    assert "argon2" not in trail


def test_signing_in_makes_a_new_secret_each_time(people: People) -> None:
    people.add("again", "viewer")
    first, second = people.sign_in("again")["token"], people.sign_in("again")["token"]
    assert first != second
    with transaction() as session:
        row = session.get_one(Token, first.split("_")[1])
        assert first.split("_", 2)[2].encode() not in row.secret_hash
