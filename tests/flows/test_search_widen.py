"""Room that the device gives away is taken: networks that contain production and cost no more."""

from __future__ import annotations

import torch

from flows.search.nsga import SearchSettings, search
from flows.search.widen import contains, widenings
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture, Stage
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.net import VsrNet

SIXTEEN = Architecture(16, (Stage(2, 16), Stage(1, 16), Stage(1, 16)))


def by_launches(architecture: Architecture) -> float:
    """A device on which a block of up to 16 channels costs what one of 8 costs."""
    return sum(max(16, block.mid) for block in architecture.blocks) / sum(16 for _ in HAND_MADE.blocks)


def test_free_width_is_found_whole() -> None:
    assert widenings(DEFAULT_SPACE, HAND_MADE, (0, 1, 2), by_launches, 1.04) == (SIXTEEN,)


def test_stages_that_are_not_affected_stay() -> None:
    wide = widenings(DEFAULT_SPACE, HAND_MADE, (1,), by_launches, 1.04)
    assert wide == (Architecture(16, (Stage(2, 8), Stage(1, 16), Stage(1, 8))),)


def test_nothing_is_offered_where_nothing_is_free() -> None:
    assert widenings(DEFAULT_SPACE, HAND_MADE, (0, 1, 2), lambda a: a.parameters() / HAND_MADE.parameters(), 1.0) == ()


def test_what_is_offered_is_bounded_and_no_offer_contains_another() -> None:
    wide = widenings(DEFAULT_SPACE, HAND_MADE, (0, 1, 2), lambda a: a.parameters() / HAND_MADE.parameters(), 2.0)
    assert 1 < len(wide) <= 4
    assert not any(contains(a, b) for a in wide for b in wide if a != b)
    assert all(contains(a, HAND_MADE) for a in wide)


def test_a_network_that_contains_another_computes_the_same_from_its_weights() -> None:
    torch.manual_seed(0)
    parent = VsrNet(HAND_MADE).eval()
    x = torch.rand(1, 3, 24, 32)
    with torch.inference_mode():
        torch.testing.assert_close(inherit(parent, SIXTEEN).eval()(x), parent(x), rtol=0, atol=1e-6)


def test_containing_is_by_stage() -> None:
    assert contains(SIXTEEN, HAND_MADE)
    assert not contains(Architecture(16, (Stage(1, 16), Stage(2, 16), Stage(1, 16))), HAND_MADE), "one block is lost"
    assert not contains(HAND_MADE, SIXTEEN)
    assert contains(HAND_MADE, Architecture(16, (Stage(2, 8), Stage(0, 48), Stage(1, 8)))), "no block, nothing to hold"


def test_the_search_judges_what_it_is_given_even_when_it_would_not_draw_it() -> None:
    settings = SearchSettings(population=4, generations=1, limit=1.04)
    result = search(
        DEFAULT_SPACE, HAND_MADE, (0, 1, 2), lambda a: 30.0 + (a == SIXTEEN), by_launches, settings, also=(SIXTEEN,)
    )
    assert result.chosen.architecture == SIXTEEN
