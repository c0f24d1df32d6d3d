"""The device state document: signature, epochs, and who takes what."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.device import DeviceTags
from contracts.state import (
    DeviceState,
    RolloutEntry,
    StateError,
    Target,
    bucket,
    choose_target,
    sign_state,
    verify_state,
)

KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
TAGS = DeviceTags(device_class="npu-4t", scenario="home")


def target(name: str, epoch: int = 1) -> Target:
    return Target(path=f"{name}.elb", digest=name[0] * 96, length=10, release_version=name, security_epoch=epoch)


def state(**changes: object) -> DeviceState:
    base = DeviceState(epoch=7, issued=1_000, expires=2_000, baseline=target("a"))
    return base.model_copy(update=changes)


def test_a_signed_document_comes_back_unchanged() -> None:
    document = sign_state(state(), KEY)
    assert verify_state(document, KEY.public_key(), 7, now=1_500) == state()


def test_signing_is_deterministic() -> None:
    assert sign_state(state(), KEY) == sign_state(state(), KEY)


def test_an_older_epoch_is_refused() -> None:
    with pytest.raises(StateError, match="older than 8"):
        verify_state(sign_state(state(), KEY), KEY.public_key(), 8)


def test_an_expired_document_is_refused() -> None:
    with pytest.raises(StateError, match="expired"):
        verify_state(sign_state(state(), KEY), KEY.public_key(), 0, now=2_001)


def test_a_foreign_signature_is_refused() -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
    with pytest.raises(StateError, match="not signed"):
        verify_state(sign_state(state(), other), KEY.public_key(), 0)


def test_a_changed_payload_is_refused() -> None:
    envelope = json.loads(sign_state(state(), KEY))
    envelope["payload"] = json.loads(sign_state(state(killed=True), KEY))["payload"]
    with pytest.raises(StateError, match="not signed"):
        verify_state(json.dumps(envelope).encode(), KEY.public_key(), 0)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_without_a_crash(data: bytes) -> None:
    with pytest.raises(StateError):
        verify_state(data, KEY.public_key(), 0)


# The same vectors are a promise to every other implementation of the device side.
VECTORS = {("s1", "device-1"): 954, ("s1", "device-2"): 2738, ("s2", "device-1"): 202}


def test_buckets_follow_the_published_vectors() -> None:
    assert {pair: bucket(*pair) for pair in VECTORS} == VECTORS


def test_buckets_are_even() -> None:
    share = sum(bucket("salt", f"d{i}") < 500 for i in range(20_000)) / 20_000
    assert abs(share - 0.05) < 0.006


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.text(max_size=20))
def test_raising_the_share_only_adds_devices(low: int, high: int, device: str) -> None:
    low, high = sorted((low, high))
    taken = [
        choose_target(
            state(rollouts=(RolloutEntry(id="r", target=target("b"), salt="s", basis_points=points),)), device, TAGS
        )
        == target("b")
        for points in (low, high)
    ]
    assert taken[1] or not taken[0]


def test_a_selector_keeps_other_devices_on_the_baseline() -> None:
    entry = RolloutEntry(id="r", target=target("b"), salt="s", basis_points=10_000, selector={"scenario": ("office",)})
    assert choose_target(state(rollouts=(entry,)), "d", TAGS) == target("a")


def test_revoked_bundles_are_never_chosen() -> None:
    entry = RolloutEntry(id="r", target=target("b"), salt="s", basis_points=10_000)
    assert choose_target(state(rollouts=(entry,), revoked=(target("b").digest,)), "d", TAGS) == target("a")


def test_an_older_security_epoch_is_never_chosen_but_an_older_release_may_be() -> None:
    assert choose_target(state(security_epoch_floor=2), "d", TAGS) is None
    assert choose_target(state(security_epoch_floor=1), "d", TAGS) == target("a")
