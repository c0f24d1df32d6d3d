"""Verdicts: wrong ones are rarer than alpha under continuous peeking, right ones come early."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from services.releases.verdict import (
    Arm,
    Decision,
    DeviceHealth,
    DeviceInstall,
    Evidence,
    VerdictPolicy,
    gather,
    judge,
)
from tests.releases.fleets import CLASSES, FleetMember, Values, fleet, look

POLICY = VerdictPolicy()
STAGES = ((0.05, 0.25), (0.25, 1.0))


def decide(evidence: Evidence, next_share: float = 0.25, min_devices: int = 5) -> Decision:
    return judge(evidence, POLICY, next_share, min_devices).decision


def peeks(seed: int, **world: object) -> list[Decision]:
    """Every verdict of a rollout that is judged after each tenth of its stage reported."""
    generator = np.random.default_rng(seed)
    members, seen = fleet(300, generator), []
    for exposed, next_share in STAGES:
        for tenth in range(1, 11):
            evidence = look(members, exposed, tenth / 10, generator, **world)  # type: ignore[arg-type]  # test glue
            seen.append(decide(evidence, next_share))
            if seen[-1] is Decision.ROLLBACK:
                return seen
    return seen


def test_a_harmless_bundle_is_rarely_rolled_back_however_often_one_looks() -> None:
    repetitions = 100
    wrong = sum(Decision.ROLLBACK in peeks(seed) for seed in range(repetitions))
    assert wrong / repetitions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)


def test_a_bundle_that_fails_two_devices_in_a_hundred_is_rarely_rolled_back() -> None:
    def unlucky(member: FleetMember) -> bool:
        return int(member.device_id[1:]) % 50 == 7

    repetitions = 50
    wrong = sum(Decision.ROLLBACK in peeks(seed, fails=unlucky) for seed in range(repetitions))
    assert wrong / repetitions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)


def test_a_harmless_bundle_is_promoted_when_its_stage_has_reported() -> None:
    promoted = [peeks(seed) for seed in range(20)]
    assert sum(run[9] is Decision.PROMOTE for run in promoted) >= 15
    assert sum(run[-1] is Decision.PROMOTE for run in promoted) >= 18


def test_a_bundle_that_fails_its_trial_on_one_class_stops_before_a_quarter_of_the_fleet_has_it() -> None:
    def bad_class(member: FleetMember) -> bool:
        return member.stratum == "npu-2t"

    runs = [peeks(seed, fails=bad_class) for seed in range(40)]
    assert all(run[-1] is Decision.ROLLBACK for run in runs)
    assert sum(len(run) <= 10 for run in runs) >= 34, "most within the 5 % stage"
    assert all(Decision.PROMOTE not in run for run in runs)


@pytest.mark.parametrize(
    ("metric", "harm"),
    [
        ("driver_error_share", 0.05),
        ("latency_log_ratio", math.log(1.5)),
        ("fidelity_lsb", 9.0),
        ("cpu_frame_share", 0.4),
    ],
)
def test_harm_on_one_class_after_the_trial_is_caught_and_named(metric: str, harm: float) -> None:
    def worse(member: FleetMember, values: Values) -> Values:
        return {**values, metric: values[metric] + harm} if member.stratum == "npu-2t" else values

    caught = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        members = fleet(300, generator)
        judgement = judge(look(members, 0.25, 1.0, generator, canary=worse), POLICY, 1.0, 5)
        if judgement.decision is Decision.ROLLBACK:
            caught += judgement.worst is not None and judgement.worst.metric == metric
    assert caught >= 19


def test_a_degraded_device_counts_only_beyond_what_the_control_suffers() -> None:
    def fleet_with(degraded_control: int) -> Evidence:
        rows = [DeviceHealth(f"c{i}", "npu-4t", Arm.CANARY, {"fidelity_lsb": 2.0}, degraded=i < 8) for i in range(20)]
        rows += [
            DeviceHealth(f"o{i}", "npu-4t", Arm.CONTROL, {"fidelity_lsb": 2.0}, degraded=i < degraded_control)
            for i in range(200)
        ]
        return gather(rows, [DeviceInstall(f"c{i}", "npu-4t", False, False) for i in range(20)], {"npu-4t": 220})

    assert decide(fleet_with(0)) is Decision.ROLLBACK
    assert decide(fleet_with(80)) is not Decision.ROLLBACK


def test_missing_data_is_never_a_pass() -> None:
    nothing = gather([], [], dict.fromkeys(CLASSES, 150))
    judgement = judge(nothing, POLICY, 0.25, 5)
    assert judgement.decision is Decision.CONTINUE
    assert any("0 of 5 devices" in reason for reason in judgement.reasons)


def test_a_missing_control_is_never_a_pass() -> None:
    generator = np.random.default_rng(1)
    evidence = look(fleet(300, generator), 1.0, 1.0, generator)
    assert decide(evidence, 1.0) is Decision.CONTINUE


def test_a_class_that_nobody_heard_of_holds_the_promotion() -> None:
    generator = np.random.default_rng(1)
    whole = look(fleet(300, generator), 0.25, 1.0, generator)
    silent_class = replace(whole.strata[0], canary=replace(whole.strata[0].canary, devices=0, values={}))
    evidence = replace(whole, strata=(silent_class, *whole.strata[1:]))
    judgement = judge(evidence, POLICY, 1.0, 5)
    assert judgement.decision is Decision.CONTINUE
    assert any(reason.startswith("npu-2t") for reason in judgement.reasons)


def test_one_failed_device_condemns_nothing() -> None:
    rows = [DeviceHealth(f"o{i}", "npu-4t", Arm.CONTROL, {"fidelity_lsb": 2.0}) for i in range(50)]
    assert decide(gather(rows, [DeviceInstall("d", "npu-4t", True, False)], {"npu-4t": 51})) is Decision.CONTINUE


def test_the_first_release_is_judged_by_ceilings_since_no_control_exists() -> None:
    def first(fidelity: float) -> Decision:
        values = {
            "driver_error_share": 0.0,
            "latency_log_ratio": -0.5,
            "deadline_miss_share": 0.0,
            "fidelity_lsb": fidelity,
            "cpu_frame_share": 0.0,
        }
        rows = [DeviceHealth(f"d{i}", "npu-4t", Arm.CANARY, values) for i in range(60)]
        begun = [DeviceInstall(f"d{i}", "npu-4t", False, False) for i in range(60)]
        return decide(gather(rows, begun, {"npu-4t": 60}, first_release=True), 1.0)

    assert first(2.0) is Decision.PROMOTE
    assert first(40.0) is Decision.ROLLBACK


def test_the_order_of_devices_and_shards_does_not_change_the_verdict() -> None:
    generator = np.random.default_rng(9)
    members = fleet(200, generator)
    state = generator.bit_generator.state
    forward = look(members, 0.25, 1.0, generator)
    generator.bit_generator.state = state
    again = look(members, 0.25, 1.0, generator)
    backward = gather(list(reversed(_rows(again))), list(reversed(_installs(again))), dict.fromkeys(CLASSES, 100))
    assert judge(forward, POLICY, 1.0, 5).decision == judge(backward, POLICY, 1.0, 5).decision


def test_the_same_evidence_gives_the_same_judgement() -> None:
    generator = np.random.default_rng(4)
    evidence = look(fleet(200, generator), 0.25, 1.0, generator)
    assert judge(evidence, POLICY, 1.0, 5) == judge(evidence, POLICY, 1.0, 5)


def _rows(evidence: Evidence) -> list[DeviceHealth]:
    rows = []
    for stratum in evidence.strata:
        for arm, side in ((Arm.CANARY, stratum.canary), (Arm.CONTROL, stratum.control)):
            for index in range(side.devices):
                values = {name: float(column[index]) for name, column in side.values.items()}
                rows.append(DeviceHealth(f"{stratum.name}{arm}{index}", stratum.name, arm, values))
    return rows


def _installs(evidence: Evidence) -> list[DeviceInstall]:
    return [
        DeviceInstall(f"{stratum.name}{index}", stratum.name, failed=index < stratum.failed, silent=False)
        for stratum in evidence.strata
        for index in range(stratum.started)
    ]
