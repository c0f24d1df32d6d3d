"""What a server sets aside when it starts is not walked again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from services.kit.heap import set_heap_aside


@pytest.fixture
def heap() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("heap")
def test_what_is_there_at_the_start_is_out_of_later_collections_and_what_comes_later_is_not() -> None:
    gc.collect()  # what earlier tests left behind is not kept
    before = len(gc.get_objects())
    kept = set_heap_aside()
    assert kept > 0.9 * before
    assert len(gc.get_objects()) < 0.1 * before
    ring: list[object] = []
    ring.append(ring)
    del ring
    assert gc.collect() >= 1
