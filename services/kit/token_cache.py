"""What the cache knows of tokens that were checked lately: hash of the secret and holder, never the secret.

A cache that does not answer knows nothing. A token that is revoked is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import redis

from services.kit.streams import connection

CACHE_KEY = "kit:checked:"
Json = dict[str, Any]  # Any: JSON


def recall(token_id: str) -> Json | None:
    """What is known of a token; one cache read."""
    try:
        value: Any = connection().get(CACHE_KEY + token_id)  # Any: redis-py types answers as sync or async
    except redis.RedisError:
        return None
    found: Json | None = json.loads(value) if isinstance(value, bytes) else None
    return found


def remember(token_id: str, known: Json, life_s: float) -> None:
    """Keep what is known of a token for `life_s`."""
    if life_s < 1:
        return
    try:
        connection().set(CACHE_KEY + token_id, json.dumps(known), ex=int(life_s))
    except redis.RedisError:
        return


def forget(token_ids: Iterable[str]) -> None:
    """Take revoked tokens out."""
    keys = [CACHE_KEY + token_id for token_id in token_ids]
    if not keys:
        return
    try:
        connection().delete(*keys)
    except redis.RedisError:
        return
