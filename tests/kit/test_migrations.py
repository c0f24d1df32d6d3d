"""The history goes up and down, and agrees with the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from embedded.postgres import Postgres
from services.kit.auth import DEFAULT_SCOPES, STAFF_SCOPES
from services.prepare import MIGRATIONS

History = Callable[[Callable[[Config], None]], set[str]]


@pytest.fixture(scope="module")
def history(postgres_instance: Postgres) -> Iterator[History]:
    """Runs an Alembic command on an empty database and gives the tables that are there afterwards."""
    postgres_instance.add_database("history")
    engine = create_engine(postgres_instance.url("history"))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")

    def run(step: Callable[[Config], None]) -> set[str]:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            step(config)
        with engine.connect() as connection:
            seen = inspect(connection)
            return {f"{schema}.{table}" for schema in seen.get_schema_names() for table in seen.get_table_names(schema)}

    yield run
    engine.dispose()


def test_up_down_and_up_again_ends_where_it_began(
    history: History,
) -> None:
    top = history(lambda config: command.upgrade(config, "head"))
    ours = {name for name in top if not name.startswith("information_schema.")}
    assert {"kit.tokens", "telemetry.reports", "telemetry.segments"} <= ours
    bottom = history(lambda config: command.downgrade(config, "base"))
    assert {name for name in bottom if not name.startswith("information_schema.")} == {"kit.alembic_version"}
    assert history(lambda config: command.upgrade(config, "head")) == top


def test_the_models_and_the_history_agree(history: History) -> None:
    history(lambda config: command.upgrade(config, "head"))
    history(command.check)


def test_the_history_is_one_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert len(script.get_heads()) == 1
    assert len(script.get_bases()) == 1


def test_operator_tokens_that_could_do_everything_still_can_and_no_other_gains(postgres_instance: Postgres) -> None:
    postgres_instance.add_database("widened")
    engine = create_engine(postgres_instance.url("widened"))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    full = sorted(STAFF_SCOPES)
    rows = (("full", "operator", full), ("narrow", "operator", ["drift:read"]), ("loop", "service", full))
    insert = text(
        "INSERT INTO kit.tokens (id, secret_hash, kind, subject_id, scopes) VALUES (:id, '', :kind, 'x', :scopes)"
    )
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0011_ddi")
    with engine.begin() as connection:
        connection.execute(insert, [{"id": name, "kind": kind, "scopes": scopes} for name, kind, scopes in rows])
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    with engine.connect() as connection:
        found = {row.id: set(row.scopes) for row in connection.execute(text("SELECT id, scopes FROM kit.tokens"))}
    engine.dispose()
    assert found["full"] == DEFAULT_SCOPES["operator"]
    assert found["narrow"] == {"drift:read"}
    assert found["loop"] == set(full)
