"""What the cache knows of tokens that were checked lately: hash of the secret and holder, never the secret.

A cache that does not answer knows nothing. A token that is revoked is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import redis

from services.kit.streams import connection

CACHE_KEY = "kit:checked:"
MARK_KEY = "kit:revocations-swept"
Json = dict[str, Any]  # Any: JSON


def recall(token_id: str) -> Json | None:
    """What is known of a token, with the time of the last sweep as `swept`; one cache read."""
    try:
        values: Any = connection().mget(CACHE_KEY + token_id, MARK_KEY)  # Any: redis-py types answers as sync or async
    except redis.RedisError:
        return None
    value, mark = values
    found: Json | None = json.loads(value) if isinstance(value, bytes) else None
    return found if found is None else {**found, "swept": _number(mark)}


def remember(token_id: str, known: Json, life_s: float) -> None:
    """Keep what is known of a token for `life_s`."""
    if life_s < 1:
        return
    try:
        connection().set(CACHE_KEY + token_id, json.dumps(known), ex=int(life_s))
    except redis.RedisError:
        return


def forget(token_ids: Iterable[str]) -> None:
    """Take revoked tokens out. What a cache that is down misses, the next sweep makes good."""
    try:
        take_out(list(token_ids))
    except redis.RedisError:
        return


def take_out(token_ids: Sequence[str]) -> None:
    """Take tokens out. Raises RedisError."""
    if token_ids:
        connection().delete(*(CACHE_KEY + token_id for token_id in token_ids))


def mark() -> float | None:
    """Up to when revocations were swept: real seconds of the database's clock. Raises RedisError."""
    value: Any = connection().get(MARK_KEY)  # Any: redis-py types answers as sync or async
    return _number(value)


def move_mark(moment: float) -> None:
    """Say that everything revoked up to `moment` is out. Raises RedisError."""
    connection().set(MARK_KEY, repr(moment))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, bytes) else None
