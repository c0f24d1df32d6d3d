"""A database with reports and segments from before the days keeps them, and passes on what was not delivered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, text

from contracts.clock import day_of
from embedded.postgres import Postgres
from services.prepare import MIGRATIONS
from tests.support.messages import report_bytes

TODAY = day_of(time.time())
BEFORE, NOW = "0006_releases", "0007_telemetry_days"


@pytest.fixture
def database(postgres_instance: Postgres) -> Iterator[Engine]:
    name = f"history_{secrets.token_hex(4)}"
    postgres_instance.add_database(name)
    engine = create_engine(postgres_instance.url(name))
    move(engine, BEFORE)
    yield engine
    engine.dispose()


def move(engine: Engine, revision: str, step: Any = command.upgrade) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        step(config, revision)


def add_report(engine: Engine, day: int, *, delivered: bool, days_ago: int = 0) -> tuple[int, bytes]:
    """One as the service wrote it before; its id and bytes."""
    pseudonym = secrets.token_hex(16)
    body = report_bytes(pseudonym=pseudonym, day=max(0, day))
    with engine.begin() as connection:
        row = connection.scalar(
            text(
                "INSERT INTO telemetry.reports (pseudonym, day, cohort, embedding_id, body, accepted_at) "
                "VALUES (:pseudonym, :day, 'npu-4t/meeting', 'e1', :body, now() - make_interval(days => :ago)) "
                "RETURNING id"
            ),
            {"pseudonym": pseudonym, "day": day, "body": body, "ago": days_ago},
        )
        add_message(connection, "telemetry.reports", int(row), delivered)
    return int(row), body


def add_message(connection: Any, topic: str, row: int, delivered: bool) -> None:
    done = "now()" if delivered else "NULL"
    connection.execute(
        text(
            "INSERT INTO kit.outbox (topic, key, payload, done_at) "
            f"VALUES (:topic, :key, jsonb_build_object('id', CAST(:id AS bigint)), {done})"
        ),
        {"topic": topic, "key": str(row), "id": row},
    )


def add_segment(engine: Engine, name: str, hour: int) -> int:
    with engine.begin() as connection:
        row = connection.scalar(
            text(
                "INSERT INTO telemetry.segments (segment_id, embedding_id, hour, cohort, body) "
                "VALUES (:name, 'e1', :hour, 'npu-4t/meeting', '{}') RETURNING id"
            ),
            {"name": name, "hour": hour},
        )
        add_message(connection, "telemetry.segments", int(row), True)
    return int(row)


def ask(engine: Engine, query: str) -> list[Any]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def marks(engine: Engine) -> dict[str, int]:
    return dict(ask(engine, "SELECT stream, finished FROM telemetry.stream_marks"))


def test_rows_keep_their_ids_and_bytes_and_new_ids_go_on_after_them(database: Engine) -> None:
    kept = dict(add_report(database, TODAY - n, delivered=True) for n in range(3))
    segment = add_segment(database, "s1", TODAY * 24 + 5)
    move(database, NOW)
    assert dict(ask(database, "SELECT id, body FROM telemetry.reports")) == kept
    assert ask(database, "SELECT id, segment_id FROM telemetry.segments") == [(segment, "s1")]
    with database.begin() as connection:
        new = connection.scalar(
            text("INSERT INTO telemetry.reports (day, pseudonym, body) VALUES (:day, '\\x00', '') RETURNING id"),
            {"day": TODAY},
        )
    assert new > max(kept)


def test_what_the_outbox_had_not_delivered_lies_behind_the_mark(database: Engine) -> None:
    old, _ = add_report(database, TODAY, delivered=True, days_ago=20)
    waiting, _ = add_report(database, TODAY, delivered=False, days_ago=20)
    add_report(database, TODAY, delivered=True, days_ago=20)
    move(database, NOW)
    assert old <= marks(database)["telemetry.reports"] < waiting
    assert ask(database, "SELECT count(*) FROM kit.outbox WHERE topic LIKE 'telemetry.%'") == [(0,)]


def test_last_week_is_published_again_because_nobody_noted_what_the_readers_have(database: Engine) -> None:
    old, _ = add_report(database, TODAY, delivered=True, days_ago=20)
    add_report(database, TODAY, delivered=True, days_ago=1)
    move(database, NOW)
    assert marks(database) == {"telemetry.reports": old, "telemetry.segments": 0}


def test_absurd_days_of_former_times_make_a_bounded_number_of_tables(database: Engine) -> None:
    body = report_bytes()
    with database.begin() as connection:
        many = [{"pseudonym": secrets.token_hex(16), "day": 10 * n, "body": body} for n in range(450)]
        connection.execute(
            text(
                "INSERT INTO telemetry.reports (pseudonym, day, cohort, embedding_id, body) "
                "VALUES (:pseudonym, :day, 'c', 'e1', :body)"
            ),
            many,
        )
    move(database, NOW)
    assert ask(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'telemetry_days'") == [(400,)]


def test_an_empty_service_moves_too_and_the_first_id_is_free(database: Engine) -> None:
    move(database, NOW)
    assert marks(database) == {"telemetry.reports": 0, "telemetry.segments": 0}


def test_the_way_back_keeps_the_rows_and_gives_the_outbox_what_is_not_taken_over(database: Engine) -> None:
    done, first = add_report(database, TODAY, delivered=True, days_ago=20)
    open_, second = add_report(database, TODAY - 1, delivered=True)
    add_segment(database, "s1", TODAY * 24)
    move(database, NOW)
    move(database, BEFORE, command.downgrade)
    rows = ask(database, "SELECT id, day, cohort, embedding_id, body, length(pseudonym) FROM telemetry.reports")
    assert sorted(rows) == [
        (done, TODAY, "npu-4t/meeting", "e1", first, 32),
        (open_, TODAY - 1, "npu-4t/meeting", "e1", second, 32),
    ]
    waiting = "SELECT key FROM kit.outbox WHERE topic = 'telemetry.reports' AND done_at IS NULL"
    assert ask(database, waiting) == [(str(open_),)]
    assert ask(database, "SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'telemetry_days'") == [
        (0,)
    ]
    move(database, NOW)
    assert len(ask(database, "SELECT id FROM telemetry.reports")) == 2
