"""Database access: one declarative base, one engine a process, one transaction a request or task.

Invariants: a request's transaction is committed before its answer is sent (`scope="function"`), so a failing commit
becomes an error answer and never a lost acknowledgement. A task uses `transaction()`. Every table lives in the schema
of its own service and is made by Alembic only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated

from fastapi import Depends
from sqlalchemy import Engine, MetaData, create_engine, text
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

from services.kit.admission import Admission
from services.kit.settings import Settings, settings

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of every table. Models name their schema: `__table_args__ = {"schema": "drift"}`."""

    metadata = MetaData(naming_convention=NAMING)


def engine(using: Settings | None = None) -> Engine:
    """The process's engine for `using.database_url` (default: the process's settings)."""
    chosen = using or settings()
    return _engine(chosen.database_url, chosen.database_pool, chosen.statement_timeout_s)


@lru_cache(maxsize=8)
def _engine(url: str, pool: int, statement_timeout_s: int) -> Engine:
    options = f"-c timezone=UTC -c statement_timeout={statement_timeout_s * 1000}"
    return create_engine(
        url,
        pool_size=pool,
        max_overflow=pool,
        pool_pre_ping=True,
        pool_timeout=10,
        connect_args={"connect_timeout": 5, "options": options},
    )


def session_factory(using: Settings | None = None) -> sessionmaker[Session]:
    """A session maker bound to the engine; rows stay readable after the commit."""
    return sessionmaker(engine(using), expire_on_commit=False)


@contextmanager
def transaction() -> Iterator[Session]:
    """One transaction for a task or a script: commits at the end of the block, rolls back on any exception."""
    with session_factory()() as session, session.begin():
        yield session


def get_session(_place: Admission) -> Iterator[Session]:
    """FastAPI dependency behind `SessionDep`: one transaction, once there is a place for it."""
    with transaction() as session:
        yield session


SessionDep = Annotated[Session, Depends(get_session, scope="function")]


def try_lock(session: Session, name: str) -> bool:
    """Take the named lock until the end of this transaction; False at once when another transaction holds it.

    Periodic tasks use it so that two schedulers, or a slow run and the next tick, never work at the same time.
    """
    key = zlib.crc32(name.encode()) | (len(name) << 32)
    return bool(session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": key}))
