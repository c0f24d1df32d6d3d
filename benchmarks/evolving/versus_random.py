"""The architecture search beside random search with as many evaluations, and beside the whole space, which is judged.

The space of the kept supernet is small enough (728 different networks) to judge every member, so the true front and its
hypervolume are known. Random search draws different networks only, which favours it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from flows.data.corpus import Split, default_corpus
from flows.data.degrade import NORMAL_VARIETY, Degradation
from flows.data.pairs import PairSet, View, make_pairs
from flows.search.evolution import Numbers, hypervolume
from flows.search.nsga import SearchSettings, search
from flows.search.table import OperatorTable
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture, Space, Stage
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.supernet import Supernet

VIEWS = (View(4, 12, 2, (128, 128)),)
CONDITIONS = (*NORMAL_VARIETY[:2], Degradation(gain=0.35, noise=4.0, crf=30.0))
UNLIMITED = 1e9
Judged = dict[Architecture, tuple[float, float]]


@dataclass(frozen=True)
class Race:
    """Hypervolumes of one seed as shares of the true front's, and how many networks each side judged."""

    searched: float
    random: float
    evaluations: int


def judge_space(supernet: Supernet, table: OperatorTable, tell: Callable[[float], None]) -> Judged:
    """dB on a few training pairs and latency relative to the hand-made net, of every different network."""
    networks, pairs = members(DEFAULT_SPACE), judging_pairs()
    supernet.eval()
    judged: Judged = {}
    for index, network in enumerate(networks):
        judged[network] = (evaluate(supernet.extract(network), pairs).psnr_y, table.worst_ratio(network, HAND_MADE))
        tell((index + 1) / len(networks))
    return judged


def judging_pairs() -> PairSet:
    """Small crops of training clips, healthy and hard."""
    return make_pairs(default_corpus().of(Split.TRAIN), CONDITIONS, VIEWS)


def members(space: Space) -> list[Architecture]:
    """Every different network: stages without blocks have one form."""
    none = Stage(0, min(space.mids), min(space.kernels))
    stages = [none, *(Stage(*c) for c in product([d for d in space.depths if d], space.mids, space.kernels))]
    found = [Architecture(space.trunks[0], combination) for combination in product(stages, repeat=space.stages)]
    return [network for network in found if network.depth]


def race(judged: Judged, seed: int, settings: SearchSettings) -> Race:
    """One search and one random search of equal size."""
    result = search(
        DEFAULT_SPACE, HAND_MADE, tuple(range(DEFAULT_SPACE.stages)),
        lambda network: judged[network][0], lambda network: judged[network][1], settings,
    )  # fmt: skip
    seen = [candidate.architecture for candidate in result.evaluated]
    networks = list(judged)
    drawn = np.random.default_rng(seed).permutation(len(networks))[: len(seen)]
    true = _volume(judged, networks)
    return Race(_volume(judged, seen) / true, _volume(judged, [networks[index] for index in drawn]) / true, len(seen))


def _volume(judged: Judged, networks: list[Architecture]) -> float:
    whole = _points(judged, list(judged))
    return hypervolume(_points(judged, networks), whole.max(axis=0) + 1e-9)


def _points(judged: Judged, networks: list[Architecture]) -> Numbers:
    return np.array([(-judged[network][0], judged[network][1]) for network in networks])
