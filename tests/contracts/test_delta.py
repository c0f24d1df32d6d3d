"""Deltas between bundles: to the byte, small where weights moved a little, and harmless whatever they hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.bundle import write_bundle
from contracts.bundle.delta import MAGIC, DeltaError, apply_delta, delta_path, make_delta


def bundle(folder: Path, name: str, weights: bytes, extra: dict[str, bytes] | None = None) -> bytes:
    path = folder / name
    pieces = {"npu-4t/weights.bin": weights, "npu-2t/weights.bin": weights, "observer.npz": b"same" * 500}
    write_bundle(
        path, {**pieces, **(extra or {})}, build_id=name.encode().ljust(16)[:16], release_version=name, security_epoch=1
    )
    return path.read_bytes()


def trained(seed: int = 0, count: int = 60_000) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(0, 35, count), -127, 127).astype(np.int8)


def retrained(weights: np.ndarray, seed: int = 1) -> np.ndarray:
    steps = np.random.default_rng(seed).integers(-2, 3, weights.size)
    return np.clip(weights + steps, -127, 127).astype(np.int8)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, bytes]:
    folder = tmp_path_factory.mktemp("bundles")
    weights = trained()
    base = bundle(folder, "1.0", weights.tobytes())
    result = bundle(folder, "2.0", retrained(weights).tobytes())
    return base, result, make_delta(base, result)


def test_a_delta_leads_to_the_very_bytes_of_the_next_bundle(pair: tuple[bytes, bytes, bytes]) -> None:
    base, result, delta = pair
    assert apply_delta(base, delta) == result


def test_a_retrained_bundle_travels_as_a_fraction_of_itself(pair: tuple[bytes, bytes, bytes]) -> None:
    """Weights that lie in the bundle twice travel once, and as small steps."""
    _, result, delta = pair
    assert len(delta) < 0.25 * len(result)


def test_the_same_two_bundles_give_the_same_delta(pair: tuple[bytes, bytes, bytes]) -> None:
    base, result, delta = pair
    assert make_delta(base, result) == delta


def test_pieces_of_another_length_or_name_travel_whole(tmp_path: Path) -> None:
    base = bundle(tmp_path, "1.0", trained().tobytes(), {"old.bin": b"gone"})
    result = bundle(tmp_path, "2.0", trained(count=70_001).tobytes(), {"new.bin": b"fresh" * 99})
    assert apply_delta(base, make_delta(base, result)) == result


def test_a_delta_from_another_base_is_refused(pair: tuple[bytes, bytes, bytes], tmp_path: Path) -> None:
    _, _, delta = pair
    with pytest.raises(DeltaError, match="another base"):
        apply_delta(bundle(tmp_path, "9.0", trained(9).tobytes()), delta)


def test_a_result_above_the_bound_is_refused_before_it_is_made(pair: tuple[bytes, bytes, bytes]) -> None:
    base, result, delta = pair
    with pytest.raises(DeltaError, match="allowed"):
        apply_delta(base, delta, most=len(result) - 1)


def test_a_frame_that_swells_is_cut_off_at_the_promised_length(pair: tuple[bytes, bytes, bytes]) -> None:
    """A few bytes that unpack to gigabytes cost no more memory than the head promises."""
    base, _, delta = pair
    swollen = delta[:112] + zstandard.ZstdCompressor().compress(bytes(50_000_000))
    with pytest.raises(DeltaError, match="more than it says"):
        apply_delta(base, swollen)


def test_deltas_are_named_by_both_digests() -> None:
    assert delta_path("a" * 96, "b" * 96) == f"deltas/{'a' * 32}-{'b' * 32}.eld"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_delta_is_refused_or_changes_nothing(pair: tuple[bytes, bytes, bytes], data: st.DataObject) -> None:
    base, result, delta = pair
    changed = bytearray(delta)
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "splice"]))
    at = data.draw(st.integers(0, len(delta) - 1))
    if kind == "flip":
        changed[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del changed[at:]
    elif kind == "grow":
        changed += data.draw(st.binary(min_size=1, max_size=40))
    else:
        changed[at : at + 8] = data.draw(st.binary(min_size=8, max_size=8))
    try:
        found = apply_delta(base, bytes(changed), len(result) + 1_000)
    except DeltaError:
        return
    assert hashlib.sha384(found).digest() == bytes(changed)[52:100]
    assert found == result


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_refused(pair: tuple[bytes, bytes, bytes], noise: bytes) -> None:
    with pytest.raises(DeltaError):
        apply_delta(pair[0], noise)
    with pytest.raises(DeltaError):
        apply_delta(pair[0], MAGIC + noise)
