"""`/healthz`: the process lives. `/readyz`: the database, Redis and the object store answer; else 503 naming them."""

from collections.abc import Callable

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import text

from services.kit.database import transaction
from services.kit.problems import Unavailable, declare
from services.kit.storage import store
from services.kit.streams import connection

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The process answers."""

    status: str = "ok"


@router.get("/healthz")
def healthz() -> Health:
    """The process lives; says nothing about its dependencies."""
    return Health()


@router.get("/readyz", responses=declare(Unavailable))
def readyz() -> Health:
    """The process can serve: its database, Redis and object store answer."""
    down = [name for name, check in CHECKS.items() if not _works(check)]
    if down:
        raise Unavailable(f"not ready, no answer from: {', '.join(down)}")
    return Health()


def _database() -> None:
    with transaction() as session:
        session.execute(text("SELECT 1"))


def _redis() -> None:
    connection().ping()


def _storage() -> None:
    store().check()


CHECKS: dict[str, Callable[[], None]] = {"database": _database, "redis": _redis, "storage": _storage}


def _works(check: Callable[[], None]) -> bool:
    try:
        check()
    except Exception:  # whatever a dependency raises, the answer is that it does not work
        return False
    return True
