"""Fixtures for every test: the platform's (see tests/support/platform.py)."""

from tests.support.platform import (
    client,
    live_server,
    platform,
    postgres_instance,
    postgres_url,
    redis_instance,
    redis_url,
    session,
    state_folder,
    tokens,
)

__all__ = [
    "client",
    "live_server",
    "platform",
    "postgres_instance",
    "postgres_url",
    "redis_instance",
    "redis_url",
    "session",
    "state_folder",
    "tokens",
]
