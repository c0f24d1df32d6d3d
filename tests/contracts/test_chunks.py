"""Hashes of parts: they fit in signed metadata, and what does not fit the file is not believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.bundle.chunks import LEAST_BYTES, MOST_CHUNKS, Chunks


@pytest.mark.parametrize("length", [1, LEAST_BYTES, LEAST_BYTES + 1, 3 * LEAST_BYTES, 64 * 1024 * 1024])
def test_parts_cover_the_file_and_stay_few(length: int) -> None:
    data = bytes(length)
    chunks = Chunks.of(data)
    assert 1 <= len(chunks.hashes) <= MOST_CHUNKS
    assert sum(len(data[i : i + chunks.size]) for i in range(0, length, chunks.size)) == length
    assert Chunks.parse(chunks.custom(), length) == chunks


def test_a_part_fits_only_its_own_hash() -> None:
    data = b"".join(index.to_bytes(4, "big") for index in range(20_000))
    chunks = Chunks.of(data)
    assert chunks.fits(1, data[chunks.size : 2 * chunks.size])
    assert not chunks.fits(0, data[chunks.size : 2 * chunks.size])
    assert not chunks.fits(99, b"")


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.dictionaries(
            st.sampled_from(["chunks", "chunk_bytes"]),
            st.one_of(st.integers(), st.text(), st.floats(), st.booleans(), st.just("ab" * 32)),
        ),
    )
)
def test_metadata_that_say_nothing_usable_mean_no_parts(custom: object) -> None:
    found = Chunks.parse(custom, 100_000)
    assert found is None or len(found.hashes) == -(-100_000 // found.size)


def test_a_count_of_parts_that_does_not_fit_the_length_is_not_believed() -> None:
    chunks = Chunks.of(bytes(100_000))
    assert Chunks.parse(chunks.custom(), 200_000) is None
