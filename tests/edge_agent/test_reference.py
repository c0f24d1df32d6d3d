"""Latencies of devices that watch calls of different sizes are comparable once divided by the built-in's estimate."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.bundle import Bundle
from edge_agent.observers.health import HealthWindow, Played
from edge_agent.reference import reference_latencies
from services.releases.feedback import _comparable_latency
from tests.support.real_bundle import compile_real

DIGEST = "a" * 96


def window(latencies: list[tuple[float, float | None]]) -> HealthWindow:
    made = HealthWindow(33.3)
    for latency, reference in latencies:
        made.add(Played(upscaled=True, latency_ms=latency, relative=latency / reference if reference else None))
    return made


def test_the_reference_comes_from_the_bundles_own_baseline(tmp_path: Path) -> None:
    bundle = Bundle.open(compile_real(tmp_path, "1").path)
    found = reference_latencies(bundle)
    assert found
    assert all(value > 0 for value in found.values())
    assert {target for target, _ in found} <= set(bundle.targets)


def test_devices_on_different_sizes_report_the_same_relative_latency() -> None:
    small = window([(0.5, 0.5)] * 10).report(DIGEST, 0, "normal")
    large = window([(2.0, 2.0)] * 10).report(DIGEST, 0, "normal")
    assert large.latency_p99_ms == pytest.approx(4 * small.latency_p99_ms)
    assert _comparable_latency(small) == pytest.approx(_comparable_latency(large)) == pytest.approx(1.0)


def test_a_slower_bundle_shows_on_every_size() -> None:
    slower = window([(0.6, 0.5), (2.4, 2.0)] * 5).report(DIGEST, 0, "normal")
    assert _comparable_latency(slower) == pytest.approx(1.2)


def test_without_a_reference_the_budget_is_used() -> None:
    plain = window([(3.33, None)] * 4).report(DIGEST, 0, "normal")
    assert plain.latency_relative_p99 == 0.0
    assert _comparable_latency(plain) == pytest.approx(0.1)
