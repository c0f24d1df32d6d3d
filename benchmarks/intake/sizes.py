"""Bytes that a report costs: in its table, in the indexes, in the write-ahead log, in Redis."""

from __future__ import annotations

import redis

from benchmarks.intake import bed, fleet
from embedded.supervisor import Platform

_TABLES = """
SELECT sum(pg_table_size(inhrelid))::float8, sum(pg_indexes_size(inhrelid))::float8
FROM pg_inherits WHERE inhparent = 'telemetry.reports'::regclass
"""


def table_bytes(platform: Platform) -> tuple[float, float]:
    """Bytes a report in tables and in indexes."""
    with bed.database(platform) as connection:
        sizes = connection.execute(_TABLES).fetchone()
        count = connection.execute("SELECT count(*) FROM telemetry.reports").fetchone()
    assert sizes is not None
    assert count is not None
    return sizes[0] / count[0], sizes[1] / count[0]


def log_position(platform: Platform) -> int:
    """Bytes of write-ahead log written so far."""
    with bed.database(platform) as connection:
        row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()
    assert row is not None
    return int(row[0])


def entry_bytes(platform: Platform, day: int, entries: int = 2_000) -> float:
    """Bytes a report in a stream of Redis, measured on a stream of its own."""
    client, name = redis.Redis.from_url(platform.info.redis_url), "bench.entries"
    try:
        for device in range(entries):
            body = fleet.report(device, day)
            client.xadd(name, {"id": str(device), "cohort": "npu-4t/meeting", "embedding_id": "e1", "body": body})
        return float(client.memory_usage(name, samples=0) or 0) / entries
    finally:
        client.delete(name)
        client.close()
