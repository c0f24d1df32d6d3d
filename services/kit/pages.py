"""Long lists by pages: `limit` and an opaque `cursor` in, `{items, next_cursor}` out.

A cursor holds the sort key of the last item, so pages stay right while rows are added.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel

from services.kit.limits import HTTP
from services.kit.problems import FieldError, MalformedPayload

T = TypeVar("T")
R = TypeVar("R")
Part = str | int | float
BIGGEST = 2**63 - 1


class Page(BaseModel, Generic[T]):
    """One page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


@dataclass(frozen=True)
class PageRequest:
    """What the client asked for. `after` is the decoded cursor: the sort key of the last item it has."""

    limit: int
    after: tuple[Any, ...] | None  # Any: sort keys are text or numbers, as the route decided

    def key(self, *kinds: type[Part]) -> tuple[Any, ...]:  # Any: as `after`
        """`after`, once its parts are of these kinds; a cursor of another list raises MalformedPayload.

        A whole number serves as a float. What the database cannot hold (NUL, more than 64 bits) is no key of ours.
        """
        if self.after is None or len(self.after) != len(kinds):
            raise _bad_cursor()
        return tuple(_part(value, kind) for value, kind in zip(self.after, kinds, strict=True))


def _page_request(
    limit: Annotated[int, Query(ge=1, le=HTTP.page_max)] = HTTP.page,
    cursor: Annotated[str | None, Query(max_length=HTTP.cursor_chars)] = None,
) -> PageRequest:
    return PageRequest(limit, None if cursor is None else decode_cursor(cursor))


PageDep = Annotated[PageRequest, Depends(_page_request)]


def encode_cursor(*key: str | int | float) -> str:
    """The opaque cursor of a sort key."""
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[Any, ...]:  # Any: see PageRequest.after
    """The sort key of a cursor; raises MalformedPayload for one that we did not make."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise _bad_cursor() from error
    if not isinstance(key, list) or not all(isinstance(part, str | int | float) for part in key):
        raise _bad_cursor()
    return tuple(key)


def page_of(
    rows: Sequence[R], request: PageRequest, item: Callable[[R], T], key: Callable[[R], tuple[str | int | float, ...]]
) -> Page[T]:
    """A page from up to `limit + 1` rows (ask the database for one more than the limit)."""
    shown = rows[: request.limit]
    more = len(rows) > request.limit
    return Page(items=[item(row) for row in shown], next_cursor=encode_cursor(*key(shown[-1])) if more else None)


def _part(value: Part, kind: type[Part]) -> Part:
    if kind is float and type(value) is int and abs(value) <= BIGGEST:
        return float(value)
    if type(value) is not kind:
        raise _bad_cursor()
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= sign <= "\udfff" for sign in value)):
        raise _bad_cursor()
    if isinstance(value, int) and abs(value) > BIGGEST:
        raise _bad_cursor()
    return value


def _bad_cursor() -> MalformedPayload:
    error = FieldError("/query/cursor", "not a cursor of this list")
    return MalformedPayload("the cursor is not one of this list; start again without it", errors=[error])
