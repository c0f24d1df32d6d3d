"""Two rollouts: one that widens, one that is done."""

from __future__ import annotations

from contracts.wire import MetricInterval, Rollout, RolloutState, StageProgress
from tests.dashboard.twin.state import NEW, NOW, OLD


def running_rollout(rollout_id: str) -> Rollout:
    stages = (
        StageProgress(
            basis_points=500, entered=NOW - 20_000, left=NOW - 9_000, targeted=12, installed=12, confirmed=12
        ),
        StageProgress(basis_points=2_500, entered=NOW - 9_000, targeted=60, installed=52, confirmed=47, failed=1),
        StageProgress(basis_points=10_000),
    )
    metrics = (
        MetricInterval(
            metric="latency_p99_ms",
            stratum="npu-4t",
            canary_devices=38,
            control_devices=122,
            estimate=-0.11,
            low=-0.3,
            high=0.09,
            margin=0.3,
            verdict="promote",
            at=NOW,
        ),
        MetricInterval(
            metric="fidelity_lsb",
            stratum="npu-2t",
            canary_devices=20,
            control_devices=60,
            estimate=0.02,
            low=-0.1,
            high=0.15,
            margin=0.25,
            verdict="continue",
            at=NOW,
        ),
    )
    return Rollout(
        id=rollout_id,
        digest=NEW,
        release_version="2026.11.3",
        state=RolloutState.RUNNING,
        stage=1,
        stages=stages,
        verdict="continue",
        version=4,
        metrics=metrics,
        created=NOW - 21_000,
    )


def finished_rollout(rollout_id: str) -> Rollout:
    stages = tuple(
        StageProgress(
            basis_points=points,
            entered=NOW - 9e5,
            left=NOW - 8e5,
            targeted=points // 42,
            installed=points // 42,
            confirmed=points // 42,
        )
        for points in (500, 2_500, 10_000)
    )
    return Rollout(
        id=rollout_id,
        digest=OLD,
        release_version="2026.11.1",
        state=RolloutState.COMPLETED,
        stage=2,
        stages=stages,
        verdict="promote",
        version=9,
        created=NOW - 9e5,
        finished=NOW - 7e5,
    )
