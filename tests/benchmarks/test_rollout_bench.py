"""The benches of rollouts and polls: what they simulate is fair, what they count they count right."""

from __future__ import annotations

import numpy as np

from benchmarks.releasing.deciding import BAD, figures
from benchmarks.releasing.population import Bundle, Population
from benchmarks.releasing.release import release
from benchmarks.serving.load import get
from contracts.wire.releases import RolloutState
from services.releases.verdict.guardrails import LATENCY_LOG_RATIO

STAGES = (500, 2_500, 10_000)


def test_the_same_seed_gives_the_same_release() -> None:
    assert release(Bundle(), 1_000, 3) == release(Bundle(), 1_000, 3)


def test_a_good_release_ships_and_a_slow_one_stops_in_its_first_stage() -> None:
    assert release(Bundle(), 3_000, 1).shipped
    slow = release(BAD["p99_20_percent_on_one_class"], 10_000, 1)
    assert slow.state is RolloutState.ROLLED_BACK
    assert slow.metric == LATENCY_LOG_RATIO
    assert slow.exposed < 0.06


def test_arms_are_disjoint_and_differ_by_nothing_when_the_bundle_does_nothing() -> None:
    population = Population(4_000, 7)
    for _ in range(4):
        population.live(2_500, Bundle(trial_failure=0.0))
    evidence = population.evidence(STAGES, 1)
    assert evidence.pooled.canary.devices + evidence.pooled.control.devices <= 4_000
    new, old = (side.metric(LATENCY_LOG_RATIO) for side in (evidence.pooled.canary, evidence.pooled.control))
    assert abs(new.mean() - old.mean()) < 4 * np.sqrt(new.var() / new.size + old.var() / old.size)


def test_a_crash_is_counted_at_one_look_only() -> None:
    population = Population(4_000, 7)
    population.live(2_500, Bundle(crash=0.5))
    population.live(2_500, Bundle(crash=0.5))
    assert population.evidence(STAGES, 1).crashes
    assert population.evidence(STAGES, 1).crashes == {}


def test_without_a_concurrent_control_crashes_are_not_compared() -> None:
    population = Population(2_000, 7)
    for _ in range(3):
        population.live(10_000, Bundle(crash=0.5))
    assert population.evidence(STAGES, 2).crashes == {}


def test_the_figures_of_deciding_name_every_kind_of_bad_release() -> None:
    found = {figure.id: figure for figure in figures(lambda share, text: None, 2, 1, 1_000)}
    assert {f"bad.{name}.caught" for name in BAD} <= set(found)
    assert found["good.shipped_without_a_person"].ok
    assert "bad.shipped" in found


def test_a_request_is_what_a_device_would_send() -> None:
    sent = get("http://127.0.0.1:1", "/releases/v1/state", {"If-None-Match": '"7"'}).decode()
    assert sent.startswith("GET /releases/v1/state HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    assert sent.endswith('If-None-Match: "7"\r\n\r\n')
