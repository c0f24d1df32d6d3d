"""DRF1: size, round trip, merge, and every reason for refusing."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.device import DeviceTags
from contracts.statistics import Moments, ReportError, decode_report, encode_report
from contracts.statistics.drf1 import MAC_BYTES, MAX_BYTES, DriftReport, report_from
from contracts.wire import WireLimits

KEY = b"k" * 32
TAGS = DeviceTags(device_class="npu-4t", scenario="home")


def seen(frames: int, seed: int, shift: float = 0.0) -> Moments:
    rng = np.random.default_rng(seed)
    moments = Moments()
    for _ in range(frames):
        z = rng.normal(loc=shift, size=256)
        moments.add(z, z[:28], rng.integers(0, 16, 8))
    return moments


def report(moments: Moments) -> DriftReport:
    return report_from(
        moments,
        pseudonym="ab" * 16,
        embedding_id="q1",
        day=20_000,
        sessions=2,
        score_mean=0.4,
        hard_segments=3,
        tags=TAGS,
    )


def test_a_report_stays_under_the_wire_limit() -> None:
    assert len(encode_report(report(seen(5, 0)), KEY)) < MAX_BYTES == WireLimits().report_bytes


def test_a_report_survives_the_round_trip_within_its_stated_error() -> None:
    original = report(seen(200, 1))
    back = decode_report(encode_report(original, KEY), KEY)
    assert back.frames == 200
    assert back.cohort == "npu-4t/home"
    assert np.abs(back.mean - original.mean).max() < 1e-3
    assert np.abs(back.variance / original.variance - 1).max() < 0.06
    assert np.abs(back.projected_covariance - original.projected_covariance).max() < 5e-3
    assert np.array_equal(back.histogram, original.histogram)


def test_variances_that_are_alike_on_all_devices_are_right_on_average() -> None:
    original = report(seen(40, 6))
    wanted = np.geomspace(1e-3, 50.0, 256).astype(np.float32)
    total = np.zeros(256)
    for index in range(1_000):
        one = replace(original, pseudonym=f"{index:032x}", variance=wanted)
        total += decode_report(encode_report(one, KEY)).variance
    assert np.abs(total / 1_000 / wanted - 1).max() < 0.004


def test_a_report_made_again_has_the_same_bytes() -> None:
    assert encode_report(report(seen(9, 7)), KEY) == encode_report(report(seen(9, 7)), KEY)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 9))
def test_merging_two_devices_equals_one_that_saw_both_streams(left: int, right: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames = [(rng.normal(size=256), rng.integers(0, 16, 8)) for _ in range(left + right)]
    parts = (Moments(), Moments())
    whole = Moments()
    for index, (z, bins) in enumerate(frames):
        parts[index >= left].add(z, z[:28], bins)
        whole.add(z, z[:28], bins)
    for merged in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        assert merged.count == whole.count
        np.testing.assert_allclose(merged.mean, whole.mean, atol=1e-9)
        np.testing.assert_allclose(merged.squares, whole.squares, atol=1e-8)
        np.testing.assert_allclose(merged.projected_squares, whole.projected_squares, atol=1e-8)
        assert np.array_equal(merged.histogram, whole.histogram)


def resealed(data: bytes) -> bytes:
    body = data[: -MAC_BYTES - 4]
    return body + struct.pack("<I", zlib.crc32(body)) + b"\0" * MAC_BYTES


def damaged(kind: str) -> bytes:
    good = bytearray(encode_report(report(seen(20, 2)), KEY))
    header = good.index(b"npu-4t")
    if kind == "size":
        return bytes(good[:-1])
    if kind == "foreign":
        good[0:4] = b"DRF9"
        return resealed(bytes(good))
    if kind == "checksum":
        good[200] ^= 1
        return bytes(good)
    if kind == "tags":
        good[header] = 0xFF
        return resealed(bytes(good))
    if kind == "empty":
        struct.pack_into("<I", good, 4 + 1 + 1 + 2 + 32 + 4, 0)
        return resealed(bytes(good))
    if kind == "not_finite":
        struct.pack_into("<e", good, header + 24 + 32, float("nan"))
        return resealed(bytes(good))
    if kind == "zero_variance":
        start = header + 24 + 32 + 512
        good[start : start + 256] = bytes(256)
        return resealed(bytes(good))
    good[-MAC_BYTES - 4 - 2] ^= 1
    return resealed(bytes(good))


@pytest.mark.parametrize(
    "kind", ["size", "foreign", "checksum", "tags", "empty", "not_finite", "zero_variance", "counts"]
)
def test_a_bad_report_is_refused_with_its_reason(kind: str) -> None:
    with pytest.raises(ReportError) as refusal:
        decode_report(damaged(kind))
    assert refusal.value.reason == kind


def test_a_report_under_a_foreign_key_is_refused() -> None:
    with pytest.raises(ReportError) as refusal:
        decode_report(encode_report(report(seen(5, 3)), KEY), b"other")
    assert refusal.value.reason == "mac"


def test_saturated_histograms_are_flagged_not_refused() -> None:
    moments = seen(2, 4)
    moments.count = 70_000
    moments.histogram[:] = 0
    moments.histogram[:, 3] = 70_000
    assert decode_report(encode_report(report(moments), KEY)).saturated


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2_100))
def test_any_bytes_are_refused_without_a_crash(data: bytes) -> None:
    with pytest.raises(ReportError):
        decode_report(data)
