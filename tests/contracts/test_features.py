"""Hard-example features: packing and the summary vector."""

from __future__ import annotations

import base64
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.features import pack_codes, quantize_codes, segment_vector, unpack_bytes, unpack_codes
from contracts.wire import SegmentUpload, WireLimits


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.integers(1, 5)] * 4), st.integers(0, 99))
def test_packing_is_undone_exactly(shape: tuple[int, int, int, int], seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 16, shape).astype(np.uint8)
    assert np.array_equal(unpack_codes(pack_codes(codes), shape), codes)


def test_codes_keep_four_bits_only() -> None:
    assert set(quantize_codes(np.arange(256, dtype=np.uint8)).tolist()) == set(range(16))


def test_values_over_four_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="quantize_codes"):
        pack_codes(np.full((1, 1, 1, 1), 16, dtype=np.uint8))


def test_codes_are_entropy_coded_where_that_helps_and_never_grow() -> None:
    alike = np.repeat(np.arange(16, dtype=np.uint8)[None, None, None], 64, axis=2)
    noise = np.random.default_rng(0).integers(0, 16, (1, 8, 8, 16), dtype=np.uint8)
    assert len(pack_codes(alike)) < 100
    assert len(pack_codes(noise)) == 4 * -(-512 // 3)


def test_codes_of_an_agent_that_does_not_entropy_code_are_still_read() -> None:
    codes = np.repeat(np.arange(16, dtype=np.uint8)[None, None, None], 4, axis=2)
    flat = codes.reshape(-1)
    plain = base64.b64encode((flat[0::2] | (flat[1::2] << 4)).tobytes()).decode()
    assert plain != pack_codes(codes)
    assert np.array_equal(unpack_codes(plain, (1, 1, 4, 16)), codes)


@pytest.mark.parametrize(
    "data",
    [
        zlib.compress(bytes(10_000_000)),
        zlib.compress(bytes(512)) + b"more",
        zlib.compress(bytes(512))[:-2],
        zlib.compress(bytes(511)),
        b"x" * 20,
        b"",
    ],
)
def test_a_bomb_a_torn_or_a_foreign_stream_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected 512 packed bytes"):
        unpack_bytes(base64.b64encode(data).decode(), 512)


def test_a_bomb_costs_no_memory() -> None:
    text = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    tracemalloc.start()
    with pytest.raises(ValueError, match="packed bytes"):
        unpack_bytes(text, 20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300_000


def test_text_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="packed bytes"):
        unpack_codes(pack_codes(np.zeros((1, 2, 2, 16), np.uint8)), (1, 3, 3, 16))


def test_the_summary_is_mean_then_spread_of_each_channel() -> None:
    codes = np.zeros((2, 1, 2, 16), dtype=np.uint8)
    codes[..., 3] = [[[0, 15]], [[0, 15]]]
    vector = segment_vector(codes)
    assert vector.shape == (32,)
    assert vector[3] == pytest.approx(0.5)
    assert vector[19] == pytest.approx(0.5)
    assert np.count_nonzero(vector) == 2


def test_the_largest_allowed_segment_stays_under_fifty_kilobytes() -> None:
    limits = WireLimits()
    codes = np.zeros((8, 20, 40, limits.segment_channels), dtype=np.uint8)
    message = SegmentUpload.model_validate(
        {
            "segment_id": "s", "embedding_id": "q", "model_version": "1", "pseudonym": "0" * 32, "hour": 1,
            "tags": {"device_class": "npu-4t"}, "frames": 1, "height": 20, "width": 40, "channels": 16,
            "codes": pack_codes(codes[:1]), "score_mean": 1.0, "score_max": 2.0,
        }
    )  # fmt: skip
    assert len(message.model_dump_json()) < limits.segment_bytes
    with pytest.raises(ValueError, match="at most 72000 codes"):
        SegmentUpload.model_validate(message.model_dump() | {"frames": 8, "codes": pack_codes(codes)})
