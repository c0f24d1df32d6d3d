"""The surrogate saves judgements and never decides: what it proposes is judged, and nothing twice."""

from __future__ import annotations

import numpy as np
import pytest

from flows.search.genome import Genome
from flows.search.guided import guided
from flows.search.judged import Judged
from flows.search.nsga import SearchSettings, pareto, search
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture, Space

WIDE = Space(mids=(8, 16, 24, 32, 48), kernels=(3, 5), stages=4)
INHERITED = Architecture(16, (*HAND_MADE.stages, HAND_MADE.stages[2]))


def quality(network: Architecture) -> float:
    """Grows with width and depth, less and less; the middle stage counts double."""
    weights = (1.0, 2.0, 1.0, 0.5)
    return sum(w * np.log1p(s.depth * s.mid * s.kernel) for w, s in zip(weights, network.stages, strict=False))


def latency(network: Architecture) -> float:
    return 0.5 + sum(s.depth * s.mid * s.kernel**2 for s in network.stages) / 2_000


@pytest.mark.parametrize(("space", "inherited"), [(DEFAULT_SPACE, HAND_MADE), (WIDE, INHERITED)])
def test_every_candidate_carries_judged_quality_and_none_is_judged_twice(space: Space, inherited: Architecture) -> None:
    asked: list[Architecture] = []

    def counted(network: Architecture) -> float:
        asked.append(network)
        return quality(network)

    every = tuple(range(space.stages))
    result = search(space, inherited, every, counted, latency, SearchSettings(8, 4, breadth=20, depth=5, limit=2.0))
    assert len(asked) == len(set(asked)) == len(result.evaluated)
    assert all(one.psnr == quality(one.architecture) for one in result.evaluated)
    assert len(asked) <= 8 * 4 + 1
    assert result.surrogate_error is not None
    assert result.surrogate_error > 0


def test_proposals_beat_random_networks_of_the_same_number() -> None:
    better = 0
    for seed in range(5):
        settings = SearchSettings(8, 5, limit=9.0, breadth=30, depth=10, seed=seed)
        result = search(WIDE, INHERITED, (0, 1, 2, 3), quality, latency, settings)
        rng = np.random.default_rng(seed)
        drawn = [WIDE.sample(rng) for _ in result.evaluated]
        rich = max(quality(n) for n in drawn if latency(n) <= 1.5)
        better += max(one.psnr for one in result.evaluated if one.latency_ratio <= 1.5) > rich
    assert better == 5


def test_a_space_that_is_judged_through_ends_the_search() -> None:
    judged = Judged(Genome(DEFAULT_SPACE, HAND_MADE, (1,)), quality, latency, 9.0)
    guided(judged, SearchSettings().evolution(), rounds=50, batch=4, progress=None)
    assert len(judged.candidates) == 9  # no block, or two depths of four widths
    assert pareto(judged.candidates)


def test_allowed_networks_are_proposed_before_forbidden_ones() -> None:
    settings = SearchSettings(8, 6, limit=0.9)
    result = search(DEFAULT_SPACE, HAND_MADE, (0, 1, 2), quality, latency, settings)
    after_the_first_batch = result.evaluated[10:]
    assert after_the_first_batch
    assert all(one.latency_ratio <= 0.9 for one in after_the_first_batch)


def test_genes_and_networks_are_each_others_inverse() -> None:
    genome = Genome(WIDE, INHERITED, (1, 3))
    for row in genome.rows()[::37]:
        network = genome.decode(row.astype(np.int64))
        assert genome.holds(network)
        assert genome.decode(np.array(genome.encode(network), np.int64)) == network
    other = Architecture(16, (WIDE.largest.stages[0], *INHERITED.stages[1:]))
    assert not genome.holds(other)
