"""The planner is pure: (slots, wanted, state) to steps."""

from __future__ import annotations

from contracts.device import DeviceTags
from contracts.state import DeviceState, RolloutEntry, Target
from contracts.wire import Cause
from edge_agent.planner import (
    BASELINE,
    Download,
    Exchange,
    GoBack,
    Install,
    Refuse,
    Step,
    Trial,
    UseBuiltIn,
    plan,
    wanted,
)
from edge_agent.slots import Slots, begin_trial, confirm, install, reject, roll_back

A, B = "a" * 96, "b" * 96
TAGS = DeviceTags(device_class="npu-4t", scenario="meeting")


def target(digest: str, epoch: int = 1) -> Target:
    return Target(path="t.elb", digest=digest, length=1, release_version=digest[:3], security_epoch=epoch)


def state(baseline: Target | None = None, *rollouts: RolloutEntry, **fields: object) -> DeviceState:
    values = {"epoch": 1, "issued": 0, "expires": 0, "baseline": baseline, "rollouts": rollouts, **fields}
    return DeviceState.model_validate(values)


def rollout(digest: str, basis_points: int = 10_000, name: str = "r1", **selector: tuple[str, ...]) -> RolloutEntry:
    return RolloutEntry(id=name, target=target(digest), salt=name, basis_points=basis_points, selector=selector)


def on(digest: str, epoch: int = 1) -> Slots:
    return confirm(begin_trial(install(Slots(), digest, "v", BASELINE, epoch), digest, BASELINE))


def steps(slots: Slots, document: DeviceState) -> list[Step]:
    return plan(slots, wanted(document, "device-1", TAGS, slots), document)


def names(found: list[Step]) -> list[str]:
    return [type(step).__name__ for step in found]


def test_an_offered_bundle_is_downloaded_installed_and_tried() -> None:
    found = steps(Slots(), state(target(A)))
    assert [type(step) for step in found] == [Download, Install, Trial]


def test_nothing_is_done_when_the_wanted_bundle_runs() -> None:
    assert steps(on(A), state(target(A))) == []
    assert steps(on(A), state(None, rollout(A))) == []


def test_nothing_wanted_means_the_built_in_bundle() -> None:
    assert steps(Slots(), state()) == []
    assert isinstance(steps(on(A), state())[0], UseBuiltIn)


def test_an_interrupted_update_goes_on_where_it_stopped() -> None:
    installed = install(on(A), B, "v", "r1", 1)
    assert names(steps(installed, state(target(A), rollout(B)))) == ["Trial"]


def test_a_confirmed_bundle_in_the_other_slot_is_exchanged_without_a_trial() -> None:
    slots = confirm(begin_trial(install(on(A), B, "v", "r1", 1), B, "r1"))
    assert isinstance(steps(slots, state(target(A)))[0], Exchange)


def test_another_wish_during_a_trial_goes_back_first() -> None:
    slots = begin_trial(install(on(A), B, "v", "r1", 1), B, "r1")
    found = steps(slots, state(target(A)))
    assert isinstance(found[0], GoBack)
    assert found[0].cause is Cause.WITHDRAWN


def test_a_revoked_or_too_old_running_bundle_is_left_before_anything_else() -> None:
    revoked = steps(on(A), state(target(A), revoked=[A]))
    assert isinstance(revoked[0], GoBack)
    assert revoked[0].cause is Cause.REVOKED
    old = steps(on(A), state(target(A), security_epoch_floor=2))
    assert isinstance(old[0], GoBack)
    assert old[0].cause is Cause.OLD_EPOCH


def test_an_offer_below_the_devices_own_floor_is_refused() -> None:
    found = steps(on(A, epoch=5), state(target(B, epoch=4)))
    assert isinstance(found[0], Refuse)


def test_a_rollout_that_failed_here_leaves_the_baseline_and_the_next_rollout() -> None:
    slots = roll_back(begin_trial(install(on(A), B, "v", "r1", 1), B, "r1"), Cause.FIDELITY)
    assert steps(slots, state(target(A), rollout(B))) == []
    again = wanted(state(target(A), rollout(B, name="r2")), "device-1", TAGS, slots)
    assert again is not None
    assert again.offer == "r2"


def test_a_baseline_that_failed_here_is_not_tried_again_and_moves_nothing() -> None:
    slots = reject(on(A), B, BASELINE, Cause.DAMAGED, "")
    assert steps(slots, state(target(B))) == []


def test_the_offer_is_the_rollout_that_chose_the_bundle() -> None:
    document = state(target(A), rollout(B, 0, "empty"), rollout(B, 10_000, "mine"))
    found = wanted(document, "device-1", TAGS, Slots())
    assert found is not None
    assert found.offer == "mine"


def test_a_rollout_for_another_class_does_not_concern_this_device() -> None:
    document = state(None, rollout(B, device_class=("npu-2t",)))
    assert wanted(document, "device-1", TAGS, Slots()) is None
