"""Redis streams between services: published after a durable write, consumed by groups, acknowledged after commit.

Truth lives in the database; a stream may lose or repeat anything, so a consumer's handler is idempotent (natural
keys). A message whose consumer died is claimed by another after a pause. One that keeps failing is moved to
`<stream>.dead` with its error instead of blocking the others. `trim` removes only what every group has finished.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
import structlog

from services.kit.limits import STREAM
from services.kit.settings import settings
from services.kit.tracing import ongoing_traceparent, span, start_trace

_APPEND = """
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[1] then return -1 end
local at, added = 3, 0
while at <= #ARGV do
  local parts = 2 * tonumber(ARGV[at])
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, at + parts))
  at, added = at + 1 + parts, added + 1
end
redis.call('SET', KEYS[2], ARGV[2])
return added
"""

TRACE = "traceparent"
"""The field of a message that carries its trace."""

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
ManyHandler = Callable[[Sequence[StreamMessage]], None]


def connection() -> redis.Redis:
    """The process's Redis client (answers are bytes)."""
    return _connection(settings().redis_url)


@lru_cache(maxsize=8)
def _connection(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=10, health_check_interval=15)


def publish(stream: str, fields: Mapping[str, str | bytes]) -> str:
    """Append one message, with the trace under way; returns its id."""
    entry: dict[Any, Any] = {**_traced(), **fields}
    added: Any = connection().xadd(stream, entry)  # Any: redis-py types answers as sync or async
    return str(added.decode())


def _traced() -> dict[str, str]:
    trace = ongoing_traceparent()
    return {TRACE: trace} if trace else {}


def publish_many(stream: str, entries: Sequence[Mapping[str, str | bytes]], *, expected: int, mark: int) -> bool:
    """Append many messages and move the stream's mark from `expected` to `mark`, all in one step.

    The mark is the publisher's own number of its last message (a row id); as Redis keeps or loses it together with
    the entries, `mark_of` tells a publisher where to go on. False, and nothing is changed, when the mark is not
    `expected`: another publisher was faster, or Redis lost data.
    """
    flat: list[str | bytes] = []
    for fields in entries:
        flat.append(str(len(fields)))
        flat += [part for field in fields.items() for part in field]
    arguments = (str(expected), str(mark), *flat)
    added: Any = connection().eval(_APPEND, 2, stream, f"published:{stream}", *arguments)  # Any: sync or async
    return int(added) >= 0


def consume_waiting(stream: str, group: str, handler: ManyHandler, batch: int, seconds: float) -> int:
    """Call `consume_many` until nothing waits, or for `seconds`; returns how many messages were handled."""
    handled, end = 0, time.monotonic() + seconds
    while found := consume_many(stream, group, handler, batch):
        handled += found
        if time.monotonic() >= end:
            break
    return handled


def length(stream: str) -> int:
    """Entries of the stream, finished ones that were not trimmed yet included."""
    return int(connection().xlen(stream))


def mark_of(stream: str) -> int:
    """The stream's mark; 0 when Redis knows none (a new stream, or Redis was wiped)."""
    kept: Any = connection().get(f"published:{stream}")
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


def consume_many(stream: str, group: str, handler: ManyHandler, batch: int = 100) -> int:
    """Like `consume`, but `handler` gets all messages at once, to commit them in one transaction.

    When it raises, the messages are handed to it one by one, so that one bad message costs its neighbours nothing.
    """
    client = connection()
    _ensure_group(client, stream, group)
    consumer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    found = _next_messages(client, stream, group, consumer, batch)
    if not found:
        return 0
    try:
        handler([message for message, _ in found])
    except Exception as error:  # one of them may be bad: find out which
        log.warning("stream_batch_failed", stream=stream, group=group, messages=len(found), error=repr(error)[:500])
        alone: Handler = lambda message: handler([message])  # noqa: E731  # the one-message form of the same handler
        return sum(_handle(client, group, alone, message, abandoned) for message, abandoned in found)
    client.xack(stream, group, *(message.id for message, _ in found))
    return len(found)


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


def finished(stream: str, group: str) -> StreamMessage | None:
    """The newest entry up to which `group` has finished everything; None when there is none in the stream.

    Entries that were removed from outside while a consumer had them in hand are given up first: they can never be
    read again, and would hold the mark for ever.
    """
    client: Any = connection()
    try:
        known = [entry for entry in client.xinfo_groups(stream) if entry["name"] == group.encode()]
    except redis.ResponseError:
        return None
    if not known:
        return None
    delivered = known[0]["last-delivered-id"].decode()
    _give_up_removed(client, stream, group, delivered)
    pending = client.xpending_range(stream, group, min="-", max="+", count=1)
    last = f"({pending[0]['message_id'].decode()}" if pending else delivered
    found = client.xrevrange(stream, max=last, min="-", count=1)
    return _message(stream, found[0]) if found else None


def trim_behind(stream: str, message_id: str) -> int:
    """Remove entries older than `message_id`, in Redis's own steps; returns how many."""
    client: Any = connection()
    return int(client.xtrim(stream, minid=message_id, approximate=True))


def _give_up_removed(client: Any, stream: str, group: str, delivered: str) -> None:
    """Acknowledge the oldest pending ids whose entries are gone (a MAXLEN or DEL from outside).

    `delivered` was read before: what is delivered while this looks is never taken for gone.
    """
    first = client.xrange(stream, count=1)
    below = f"({first[0][0].decode()}" if first else delivered
    for entry in client.xpending_range(stream, group, min="-", max=below, count=1_000):
        client.xack(stream, group, entry["message_id"])
        log.warning("stream_entry_removed", stream=stream, group=group, id=entry["message_id"].decode())


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
    start_trace(message.fields.get(TRACE, b"").decode(errors="replace"))
    try:
        with span(f"stream {message.stream}", "consumer"):
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
