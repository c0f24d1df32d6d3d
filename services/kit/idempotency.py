"""`Idempotency-Key` on POSTs that start work: a retry gets the first answer and starts nothing.

Key, subject, request hash and answer are written in the transaction of the work itself. The same key with another
body is 422; while the first request still runs, a second one gets 409.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Header
from pydantic import BaseModel
from sqlalchemy.orm import Session

from services.kit.auth import Subject
from services.kit.database import try_lock
from services.kit.limits import HTTP
from services.kit.models import IdempotentAnswer
from services.kit.problems import Conflict, Problem

A = TypeVar("A", bound=BaseModel)

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=HTTP.idempotency_key_chars)
]


class KeyReused(Problem):
    status, slug, title = 422, "idempotency-key-reused", "The key was used for another request"


class StillRunning(Conflict):
    slug, title = "idempotent-request-running", "The first request with this key still runs"


def once(
    session: Session, subject: Subject, key: str | None, request: bytes, kind: type[A], work: Callable[[], A]
) -> A:
    """Do `work` once per `(subject, key)` and give its answer; without a key, just do it.

    `request` is what must be equal for two requests to be the same one (the canonical body).
    """
    if key is None:
        return work()
    holder = str(subject)
    if not try_lock(session, f"idempotency:{holder}:{key}"):
        raise StillRunning("wait for its answer, then ask again with the same key")
    digest = hashlib.sha256(request).digest()
    known = session.get(IdempotentAnswer, (holder, key))
    if known is not None:
        if known.request_hash != digest:
            raise KeyReused(f"key {key!r} belongs to a request with another body; use a new key")
        return kind.model_validate(known.answer)
    answer = work()
    session.add(IdempotentAnswer(subject=holder, key=key, request_hash=digest, answer=answer.model_dump(mode="json")))
    return answer
