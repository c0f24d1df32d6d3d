"""Properties are judged by what they find, whatever else the machine has to do."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_no_property_fails_because_an_example_took_long() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
