"""Fixtures of the platform: a real PostgreSQL and Redis, the application on top, tokens.

postgres_url   a migrated database of this test module alone
redis_url      a real Redis, emptied for this test module
platform       both, with `settings()` pointing at them (EDGELOOP_* set for the module)
client         the whole application in process: `client.post("/drift/v1/...", token=tokens.service, json=...)`
live_server    the same over a loopback port: `live_server.url`
tokens         `tokens.operator`, `tokens.service`, `tokens.device("device-1")`, `tokens.make(kind, id, scopes)`
state_folder   a state folder for `embedded.supervisor.Platform`
session        a database session whose transaction commits at the end of the test
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis as redis_client
from alembic import command
from alembic.config import Config
from sqlalchemy.orm import Session

from embedded.postgres import Postgres
from embedded.redis import Redis
from services.app import build_app
from services.kit.auth import Kind, issue_token
from services.kit.database import engine, transaction
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.settings import Settings, settings
from services.kit.tasks import celery_app
from tests.support.http import ApiClient, LiveServer
from tests.support.servers import postgres_server, redis_server, server_folder

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Tokens:
    """Makes tokens in the test's database."""

    def make(self, kind: Kind, subject_id: str, scopes: Iterable[str] | None = None, ttl_s: float | None = None) -> str:
        """A token in clear."""
        with transaction() as session:
            return issue_token(session, kind, subject_id, scopes, ttl_s)

    def device(self, device_id: str) -> str:
        """A device's token."""
        return self.make("device", device_id)

    @property
    def operator(self) -> str:
        """A new token of the operator `alice`."""
        return self.make("operator", "alice")

    @property
    def service(self) -> str:
        """A new token of the service `loop`."""
        return self.make("service", "loop")


@pytest.fixture(scope="session")
def postgres_instance() -> Iterator[Postgres]:
    """The session's PostgreSQL, with the migrated database `template_edgeloop`."""
    with server_folder("pg") as folder, postgres_server(folder) as (postgres, _):
        postgres.add_database("template_edgeloop")
        migrate(postgres.url("template_edgeloop"))
        yield postgres


@pytest.fixture(scope="session")
def redis_instance() -> Iterator[Redis]:
    """The session's Redis."""
    with server_folder("redis") as folder, redis_server(folder) as (server, _):
        yield server


@pytest.fixture(scope="module")
def postgres_url(postgres_instance: Postgres) -> str:
    """URL of a fresh, migrated database of this test module."""
    name = f"test_{next(_numbers)}"
    postgres_instance.add_database(name, template="template_edgeloop")
    return postgres_instance.url(name)


@pytest.fixture(scope="module")
def redis_url(redis_instance: Redis) -> str:
    """URL of the session's Redis, empty."""
    client = redis_client.Redis.from_url(redis_instance.url())
    client.flushall()
    client.close()
    return redis_instance.url()


@pytest.fixture(scope="module")
def platform(postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The process's settings, pointing at this module's database, Redis and state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_DATABASE_URL", postgres_url)
        patch.setenv("EDGELOOP_REDIS_URL", redis_url)
        patch.setenv("EDGELOOP_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        settings.cache_clear()
        _point_celery_at(redis_url)
        yield settings()
        engine().dispose()
    settings.cache_clear()


def _point_celery_at(redis_url: str) -> None:
    """A module imported earlier may have made Celery read its settings already, when there was no Redis of ours."""
    celery_app.conf.broker_url = redis_url
    celery_app.amqp._producer_pool = None
    celery_app._pool = None


@pytest.fixture(scope="module")
def client(platform: Settings) -> Iterator[ApiClient]:
    """The whole application, in process."""
    with ApiClient(build_app((*SERVICES, DASHBOARD))) as made:
        yield made


@pytest.fixture(scope="module")
def live_server(platform: Settings) -> Iterator[LiveServer]:
    """The whole application on a loopback port; `EDGELOOP_BASE_URL` points at it."""
    with LiveServer(build_app((*SERVICES, DASHBOARD))) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_BASE_URL", server.url)
        settings.cache_clear()
        yield server
    settings.cache_clear()


@pytest.fixture(scope="module")
def tokens(platform: Settings) -> Tokens:
    """Tokens for this module's database."""
    return Tokens()


@pytest.fixture
def state_folder() -> Iterator[Path]:
    """A folder for an embedded platform. Not `tmp_path`: pytest closes that to PostgreSQL's user when run as root."""
    with server_folder("state") as folder:
        yield folder / "state"


@pytest.fixture
def session(platform: Settings) -> Iterator[Session]:
    """A session whose transaction commits at the end of the test."""
    with transaction() as opened:
        yield opened


def migrate(database_url: str, revision: str = "head") -> None:
    """Bring a database to `revision`."""
    chosen = Settings(database_url=database_url)
    configuration = Config(str(ROOT / "alembic.ini"))
    with engine(chosen).connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
    engine(chosen).dispose()
