"""Redis streams between services: published after a durable write, consumed by groups, acknowledged after commit.

Truth lives in the database; a stream may lose or repeat anything, so a consumer's handler is idempotent (natural
keys). A message whose consumer died is claimed by another after a pause. One that keeps failing is moved to
`<stream>.dead` with its error instead of blocking the others. `trim` removes only what every group has finished.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
import structlog

from services.kit.limits import STREAM
from services.kit.settings import settings

_APPEND = """
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
if tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[2]) or '0') then redis.call('SET', KEYS[2], ARGV[1]) end
return id
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StreamMessage:
    """One entry. Field names are text, values are bytes as they were published."""

    stream: str
    id: str
    fields: Mapping[str, bytes]

    def text(self, field: str) -> str:
        """A field as text; raises KeyError when it is absent."""
        return self.fields[field].decode()


Handler = Callable[[StreamMessage], None]


def connection() -> redis.Redis:
    """The process's Redis client (answers are bytes)."""
    return _connection(settings().redis_url)


@lru_cache(maxsize=8)
def _connection(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=10, health_check_interval=15)


def publish(stream: str, fields: Mapping[str, str | bytes], mark: int = 0) -> str:
    """Append one message; returns its id.

    `mark` is the publisher's own number of the message (a row id). The highest one is kept beside the stream, in the
    same step, so that a publisher can tell by `mark_of` that Redis lost messages.
    """
    flat: list[str | bytes] = [part for field in fields.items() for part in field]
    added: Any = connection().eval(_APPEND, 2, stream, f"mark:{stream}", str(mark), *flat)  # Any: sync or async
    return str(added.decode())


def mark_of(stream: str) -> int:
    """The highest mark published; 0 when there is none, or when Redis lost everything."""
    kept: Any = connection().get(f"mark:{stream}")
    return int(kept or 0)


def consume(stream: str, group: str, handler: Handler, batch: int = 100) -> int:
    """Hand up to `batch` messages to `handler`, first those that another consumer left behind.

    The handler commits its own work; the message is acknowledged after it returns. A handler that raises leaves its
    message for a later call. Returns how many messages were handled.
    """
    client = connection()
    _ensure_group(client, stream, group)
    consumer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    handled = 0
    for message, abandoned in _next_messages(client, stream, group, consumer, batch):
        handled += _handle(client, group, handler, message, abandoned)
    return handled


def lag(stream: str, group: str) -> int:
    """Messages of `stream` that `group` has not finished (waiting or in hand)."""
    client: Any = connection()
    try:
        groups = client.xinfo_groups(stream)
    except redis.ResponseError:
        return 0
    found = [entry for entry in groups if entry["name"] == group.encode()]
    if not found:
        return int(client.xlen(stream))
    last = found[0]["last-delivered-id"].decode()
    waiting = client.xrange(stream, min=f"({last}", count=10_000)
    return len(waiting) + int(found[0]["pending"])


def trim(stream: str, groups: Collection[str]) -> int:
    """Remove the entries that every one of `groups` has finished; nothing while a group is still unknown."""
    client: Any = connection()
    try:
        known = {entry["name"].decode(): entry for entry in client.xinfo_groups(stream)}
    except redis.ResponseError:
        return 0
    if not set(groups) <= set(known):
        return 0
    floor = min((_first_unfinished(client, stream, name, known[name]) for name in known), key=_order)
    return int(client.xtrim(stream, minid=floor, approximate=True))


def _ensure_group(client: redis.Redis, stream: str, group: str) -> None:
    try:
        client.xgroup_create(stream, group, id="0", mkstream=True)
    except redis.ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


def _next_messages(
    client: redis.Redis, stream: str, group: str, consumer: str, batch: int
) -> list[tuple[StreamMessage, bool]]:
    idle = int(STREAM.claim_after_s * 1000)
    claimed: Any = client.xautoclaim(stream, group, consumer, idle, count=batch)
    messages = [(_message(stream, raw), True) for raw in claimed[1] if raw[1]]
    if len(messages) < batch:
        fresh: Any = client.xreadgroup(group, consumer, {stream: ">"}, count=batch - len(messages))
        messages += [(_message(stream, raw), False) for _, entries in fresh or [] for raw in entries]
    return messages


def _message(stream: str, raw: tuple[bytes, dict[bytes, bytes]]) -> StreamMessage:
    return StreamMessage(stream, raw[0].decode(), {key.decode(): value for key, value in raw[1].items()})


def _handle(client: redis.Redis, group: str, handler: Handler, message: StreamMessage, abandoned: bool) -> int:
    try:
        handler(message)
    except Exception as error:  # one bad message must not stop the ones behind it
        log.warning("stream_message_failed", stream=message.stream, id=message.id, group=group, exc_info=error)
        if abandoned and _deliveries(client, group, message) >= STREAM.deliveries:
            _bury(client, group, message, error)
        return 0
    client.xack(message.stream, group, message.id)
    return 1


def _deliveries(client: redis.Redis, group: str, message: StreamMessage) -> int:
    entries: Any = client.xpending_range(message.stream, group, min=message.id, max=message.id, count=1)
    return int(entries[0]["times_delivered"]) if entries else 0


def _bury(client: redis.Redis, group: str, message: StreamMessage, error: Exception) -> None:
    reason = f"{type(error).__name__}: {error}"[:500]
    fields: dict[Any, Any] = {**message.fields, "dead_group": group, "dead_reason": reason}
    client.xadd(f"{message.stream}.dead", fields, maxlen=STREAM.dead_letters, approximate=True)
    client.xack(message.stream, group, message.id)
    log.error("stream_message_dead", stream=message.stream, id=message.id, group=group, reason=reason)


def _first_unfinished(client: Any, stream: str, group: str, entry: dict[str, Any]) -> str:
    pending = client.xpending_range(stream, group, min="-", max="+", count=1)
    if pending:
        return str(pending[0]["message_id"].decode())
    return str(entry["last-delivered-id"].decode())


def _order(message_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = message_id.partition("-")
    return int(milliseconds), int(sequence or 0)
