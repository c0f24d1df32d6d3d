"""A small application on the kit, for tests of what every service inherits."""

from typing import Annotated

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from sqlalchemy import text

from services.kit.app import make_app
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.idempotency import IdempotencyKey, once
from services.kit.pages import Page, PageDep, page_of
from services.kit.problems import Conflict

router = APIRouter()


class Order(BaseModel):
    """What a client sends."""

    amount: int


class Receipt(BaseModel):
    """What it gets."""

    number: int


@router.get("/whoami")
def whoami(subject: Annotated[Subject, requires("drift:read")]) -> dict[str, str]:
    """The caller."""
    return {"subject": str(subject)}


@router.post("/orders", status_code=202)
def order(
    subject: Annotated[Subject, requires("drift:write")], session: SessionDep, body: Order, key: IdempotencyKey = None
) -> Receipt:
    """Start something, once a key."""

    def work() -> Receipt:
        return Receipt(number=session.scalar(text("SELECT nextval('kit.orders')")) or 0)

    return once(session, subject, key, body.model_dump_json().encode(), Receipt, work)


@router.post("/late-failure", status_code=201)
def late_failure(session: SessionDep) -> dict[str, bool]:
    """Works until the commit, where a deferred constraint fails."""
    session.execute(text("CREATE TABLE IF NOT EXISTS kit.late (v int UNIQUE DEFERRABLE INITIALLY DEFERRED)"))
    session.execute(text("INSERT INTO kit.late VALUES (1), (1)"))
    return {"created": True}


@router.get("/numbers")
def numbers(page: PageDep) -> Page[int]:
    """The numbers below 120, by pages."""
    first = page.after[0] + 1 if page.after else 0
    rows = list(range(first, 120))[: page.limit + 1]
    return page_of(rows, page, item=lambda row: row, key=lambda row: (row,))


@router.get("/conflict")
def conflict() -> None:
    """A business error."""
    raise Conflict("it is already so")


@router.get("/bug")
def bug() -> None:
    """A programming error."""
    raise RuntimeError("a secret detail")


@router.get("/full-disk")
def full_disk() -> None:
    """A full disk."""
    raise OSError(28, "No space left on device", "/data/x")


def small_app() -> FastAPI:
    """The application, under `/small`."""
    return make_app("small", [router], "/small", body_limits={"/small/orders": 100})
