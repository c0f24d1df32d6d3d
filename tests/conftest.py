"""Fixtures for every test: the platform's (see tests/support/platform.py). Properties do not fail by the clock."""

from hypothesis import HealthCheck, settings

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

# How long an example takes says something about the machine, nothing about the property.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
