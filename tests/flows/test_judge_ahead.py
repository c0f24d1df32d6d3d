"""What is asked for ahead is all that the search then asks for, in whole batches, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from flows.search.nsga import SearchSettings, search
from flows.steps.ahead import judge_ahead
from flows.tasks.vsr.architecture import HAND_MADE, Architecture, Space

SPACE = Space()
AFFECTED = (0, 1)
SETTINGS = SearchSettings(population=8, generations=4, breadth=20, depth=6, seed=3)


def _quality(architecture: Architecture) -> float:
    return 30.0 + architecture.parameters() ** 0.25 - 0.1 * architecture.stages[0].depth


def _latency(architecture: Architecture) -> float:
    return architecture.macs(16, 16) / HAND_MADE.macs(16, 16)


def test_the_search_finds_everything_known() -> None:
    known: dict[Architecture, float] = {}
    batches: list[int] = []
    alone: list[Architecture] = []

    def many(networks: Sequence[Architecture]) -> None:
        new = [network for network in dict.fromkeys(networks) if network not in known]
        batches.append(len(new))
        known.update((network, _quality(network)) for network in new)

    def quality(architecture: Architecture) -> float:
        if architecture not in known:
            alone.append(architecture)
            known[architecture] = _quality(architecture)
        return known[architecture]

    many([HAND_MADE])
    judge_ahead(SPACE, HAND_MADE, AFFECTED, quality, _latency, SETTINGS, (HAND_MADE,), many)
    assert alone == []
    assert len(batches) == 1 + SETTINGS.generations
    assert max(batches) == SETTINGS.population
    found = search(SPACE, HAND_MADE, AFFECTED, quality, _latency, SETTINGS)
    assert alone == [], "the search met nothing that was not known"
    assert found == search(SPACE, HAND_MADE, AFFECTED, _quality, _latency, SETTINGS)
    assert {one.architecture for one in found.evaluated} == set(known)
