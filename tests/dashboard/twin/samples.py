"""A platform in the middle of a turn of the loop: what the pages are shown."""

from __future__ import annotations

import json
from pathlib import Path

from contracts.wire import (
    AlarmAction,
    Build,
    BuildState,
    Cluster,
    CohortDay,
    Coverage,
    CoverageState,
    DeviceRecord,
    DriftAlarm,
    DriftState,
    GateCheck,
    GateVerdict,
    MovedDirection,
)
from tests.dashboard.twin.people import MOMENT
from tests.dashboard.twin.rollouts import finished_rollout, running_rollout
from tests.dashboard.twin.state import DAY, EVIL, NEW, NOW, OLD, SCOPES, Twin

SEARCH = Path(__file__).with_name("search.json")
"""What a retraining of the demo told of its search, as it was sent."""

COHORTS = ("npu-4t/indoor-night", "npu-2t/indoor-night", "npu-4t/office", "npu-2t/office", "npu-4t/street")


def busy() -> Twin:
    """A platform in the middle of a turn of the loop."""
    twin = Twin(roles={role: role for role in SCOPES})
    twin.devices = [_device(number) for number in range(240)]
    twin.days = [_day(cohort, day) for cohort in COHORTS for day in range(DAY - 9, DAY + 1)]
    twin.alarms = [
        DriftAlarm(
            id="al-1",
            cohorts=("npu-4t/indoor-night", "npu-2t/indoor-night"),
            days=(DAY - 2, DAY - 1),
            z=6.4,
            d=0.92,
            js=0.21,
            residual=-0.12,
            directions=(MovedDirection(axis=4, shift=-0.61, z=-11.0), MovedDirection(axis=9, shift=0.4, z=7.2)),
            quality_fell=True,
            state=DriftState.SEVERE,
            action=AlarmAction.RETRAIN,
            reason="2 of 3 days; flow run started",
            created=NOW - 90_000,
        )
    ]
    twin.clusters = [
        _cluster(0, 184, CoverageState.COVERED),
        _cluster(1, 61, CoverageState.PARTIAL),
        _cluster(2, 17, CoverageState.UNCOVERED),
    ]
    twin.builds = {
        build.id: build
        for build in (
            build_of("b-3", "2026.11.3", BuildState.PASSED),
            _broken(),
            build_of("b-1", "2026.11.1", BuildState.PASSED, True),
        )
    }
    twin.rollouts = {rollout.id: rollout for rollout in (running_rollout("r-2"), finished_rollout("r-1"))}
    twin.flows = [_flow(1, "completed"), _flow(2, "failed"), _flow(3, "running")]
    twin.searches = {"b-3": json.loads(SEARCH.read_text())}
    token = {"id": "00bb", "label": f"nightly {EVIL}", "scopes": ["drift:read"], "created": MOMENT, "expires": MOMENT}
    twin.people = {"operator": {"api_tokens": [token]}, "viewer": {"locked_until": MOMENT}}
    twin.alerts = [
        {
            "id": 1,
            "kind": "rollout.rolled_back",
            "subject": "rollout:r-0",
            "detail": "stage 5 %: latency p99 harms npu-2t",
            "created": NOW - 3e5,
        }
    ]
    return twin


def _device(number: int) -> DeviceRecord:
    new = number % 4 == 0
    return DeviceRecord(
        id=f"d-{number}",
        device_class="npu-2t" if number % 3 == 0 else "npu-4t",
        running_digest=NEW if new else OLD,
        slot_stage="confirmed",
        last_seen=NOW,
    )


def _day(cohort: str, day: int) -> CohortDay:
    drifts = "night" in cohort and day >= DAY - 3
    age = day - (DAY - 4)
    sigma = (1.5 * age + (0.8 if "4t" in cohort else 0.2)) if drifts else 0.5 + 0.13 * ((day * 7 + len(cohort)) % 9)
    state = DriftState.SEVERE if sigma > 3.5 else DriftState.STABLE
    return CohortDay(
        cohort=cohort, day=day, devices=48, frames=190_000, state=state, z=sigma, d=sigma / 7, js=sigma / 40
    )


def _cluster(label: int, members: int, state: CoverageState) -> Cluster:
    share = {CoverageState.COVERED: 0.97, CoverageState.PARTIAL: 0.58, CoverageState.UNCOVERED: 0.06}[state]
    coverage = Coverage(
        state=state,
        share=share,
        low=max(0.0, share - 0.09),
        high=min(1.0, share + 0.05),
        members=members,
        covered=int(share * members),
        eps_cov=0.4,
    )
    return Cluster(
        id=f"c-{label}",
        label=label,
        members=members,
        centroid=(0.2 * label, 0.1 * label * label, *(0.0,) * 30),
        medoid=(0.2 * label, *(0.0,) * 31),
        radius=0.5,
        score_mean=2.0,
        cohorts={"npu-4t/indoor-night": members // 2, "npu-2t/indoor-night": members - members // 2},
        coverage=coverage,
    )


def build_of(build_id: str, version: str, state: BuildState, production: bool = False) -> Build:
    checks = tuple(
        GateCheck(id=f"latency.p99.model@npu-{n}t/360x640/normal", value=5.9, limit=6.3, unit="ms", ok=True)
        for n in (2, 4)
    )
    return Build(
        id=build_id,
        name="vsr-night",
        state=state,
        release_version=version,
        security_epoch=1,
        digest=NEW,
        size_bytes=912_384,
        production=production,
        verdict=GateVerdict(passed=True, checks=checks),
        created=NOW - 40_000,
        finished=NOW - 39_000,
        lineage={"alarm": "al-1", "mlflow_run": "5f0c2f"},
    )


def _broken() -> Build:
    bad = GateCheck(
        id="quantisation.drop@npu-4t/360x640/normal",
        value=9.31,
        limit=0.15,
        unit="dB",
        ok=False,
        detail=f"INT8 loses 9.310 dB against FP32: the calibration does not fit the activations {EVIL}",
    )
    verdict = GateVerdict(passed=False, checks=(bad,), reasons=(f"{bad.id}: {bad.detail}",))
    made = build_of("b-2", "2026.11.2", BuildState.BLOCKED)
    return made.model_copy(
        update={"name": "vsr-broken", "verdict": verdict, "message": "the gate blocked this build: 1 check failed"}
    )


def _flow(number: int, state: str) -> dict[str, object]:
    return {
        "id": f"00000000-0000-0000-0000-{number:012d}",
        "name": f"fast-otter-{number}",
        "state": state,
        "state_name": state.title(),
        "message": "step train failed: disk full" if state == "failed" else "",
        "expected": NOW - 4_000,
        "started": NOW - 3_900,
        "ended": None if state == "running" else NOW - 100,
        "run_s": 3_800.0,
        "runs": 1,
        "alarm": "al-1",
        "tags": ["drift"],
        "retryable": state == "failed",
    }
