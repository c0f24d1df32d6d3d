"""The hard set: (clip, degradation) pairs of the licensed corpus that stand in for what devices saw.

Devices send features, not pictures. For every uncovered cluster of hard segments we look for training clips and
degradations whose own segment vectors fall inside the cluster: a coarse grid first, then a local search around the
best. A stand-in is accepted only within `eps` of a member of the cluster; which members it reaches is reported.
Held-out clips never take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames, shrink
from flows.data.corpus import Clip
from flows.data.degrade import Degradation, receive
from flows.data.pairs import View, load_view
from flows.embedder import SegmentEmbedder
from flows.errors import FlowError

Vectors = NDArray[np.float32]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class SearchSpace:
    """Coarse grid of conditions and the steps of the local search around its best points."""

    gains: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35)
    noises: tuple[float, ...] = (0.0, 8.0, 16.0, 24.0)
    crfs: tuple[float, ...] = (21.0, 27.0, 33.0, 39.0)
    drop: float = 0.05
    loss: float = 0.03
    frames: int = 9
    keep: int = 8
    local_rounds: int = 3
    nearest: int = 8
    max_stand_ins: int = 16

    def grid(self) -> tuple[Degradation, ...]:
        """Every combination; dropped and lost frames come with low bitrates, as they do in a bad network."""
        points = []
        for gain in self.gains:
            for noise in self.noises:
                for crf in self.crfs:
                    bad = crf >= 30.0
                    points.append(
                        Degradation(gain, noise, 0.0, crf, None, self.drop if bad else 0.0, self.loss if bad else 0.0)
                    )
        return tuple(points)


@dataclass(frozen=True)
class TargetCluster:
    """What the platform knows of a cluster: its members' vectors [n, 32]."""

    id: str
    members: Vectors


@dataclass(frozen=True)
class StandIn:
    """A training clip under a degradation that lands in a cluster."""

    cluster: str
    clip: str
    view: View
    degradation: Degradation
    vectors: Vectors = field(repr=False)
    distance: float
    reached: int


@dataclass(frozen=True)
class Landed:
    """One training clip under one condition: video, scene of it, label, and vectors [k, 32]."""

    video: str
    clip: str
    condition: str
    vectors: Vectors = field(repr=False)


@dataclass(frozen=True)
class HardSet:
    """Accepted stand-ins and the coverage that they give, per cluster."""

    stand_ins: tuple[StandIn, ...]
    eps: float
    before: dict[str, float]
    after: dict[str, float]
    members: dict[str, int]
    tried: int

    @property
    def coverage_before(self) -> float:
        """Share of all members that the old training set reached."""
        return _weighted(self.before, self.members)

    @property
    def coverage_after(self) -> float:
        """Share of all members that the training set with stand-ins reaches."""
        return _weighted(self.after, self.members)

    @property
    def degradations(self) -> tuple[Degradation, ...]:
        """The distinct conditions, in order of first use."""
        return tuple(dict.fromkeys(stand_in.degradation for stand_in in self.stand_ins))


def build_hard_set(
    clusters: Sequence[TargetCluster],
    clips: Sequence[tuple[Clip, View]],
    embedder: SegmentEmbedder,
    training: Vectors,
    eps: float,
    space: SearchSpace | None = None,
    progress: Progress | None = None,
) -> HardSet:
    """Find stand-ins for every cluster.

    `clips` are training clips with the view they are looked at, `training` the vectors [n, 32] of the present
    training set, `eps` the distance within which a training vector covers a member. Raises FlowError when there is
    nothing to search with.
    """
    chosen = space or SearchSpace()
    sources = _sources(clips, chosen.frames)
    if not clusters or not sources:
        raise FlowError("hard set needs at least one cluster and one training clip large enough to degrade")
    report = progress or (lambda _what, _share: None)
    search = _Search(embedder, sources, chosen)
    search.scan(chosen.grid(), report)
    stand_ins: list[StandIn] = []
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for index, cluster in enumerate(clusters):
        reached = _reached(cluster.members, training, eps)
        before[cluster.id] = float(reached.mean())
        found, reached = search.cover(cluster, reached, eps)
        stand_ins += found
        after[cluster.id] = float(reached.mean())
        report(f"stand-ins for {cluster.id}", (index + 1) / len(clusters))
    members = {cluster.id: len(cluster.members) for cluster in clusters}
    return HardSet(tuple(stand_ins), eps, before, after, members, search.tried)


def training_vectors(
    clips: Iterable[tuple[Clip, View]],
    degradations: Iterable[Degradation],
    embedder: SegmentEmbedder,
    frames: int = 12,
) -> list[Landed]:
    """Where a training set lands, for the coverage figures of the platform."""
    listed = tuple(degradations)
    return [
        Landed(
            source.clip.video,
            source.clip.id,
            _label(condition),
            embedder.segments(receive(source.low, condition, source.clip.fps)),
        )
        for source in _sources(clips, frames)
        for condition in listed
    ]


@dataclass(frozen=True)
class _Source:
    clip: Clip
    view: View
    low: Frames


@dataclass
class _Candidate:
    source: _Source
    degradation: Degradation
    vectors: Vectors


class _Search:
    """All candidates that were tried; a candidate is embedded once however many clusters ask for it."""

    def __init__(self, embedder: SegmentEmbedder, sources: Sequence[_Source], space: SearchSpace) -> None:
        self._embedder = embedder
        self._sources = sources
        self._space = space
        self._candidates: dict[tuple[int, Degradation], _Candidate] = {}

    @property
    def tried(self) -> int:
        return len(self._candidates)

    def scan(self, degradations: Sequence[Degradation], report: Progress) -> None:
        for number, degradation in enumerate(degradations):
            for index in range(len(self._sources)):
                self._embed(index, degradation)
            report("trying degradations", (number + 1) / len(degradations))

    def cover(
        self, cluster: TargetCluster, reached: NDArray[np.bool_], eps: float
    ) -> tuple[list[StandIn], NDArray[np.bool_]]:
        """Take the candidates that members lie nearest to, most members first, then whatever reaches the rest.

        Being within `eps` is enough to count as reached, but not to be chosen: the nearest condition is the likeliest.
        """
        self._refine(cluster)
        if reached.all():
            return [], reached
        candidates = list(self._candidates.values())
        distances = np.stack([_distances(cluster.members, c.vectors).min(axis=1) for c in candidates])
        wins = np.bincount(distances[:, ~reached].argmin(axis=0), minlength=len(candidates))
        chosen = [int(index) for index in np.argsort(-wins, kind="stable")[: self._space.nearest] if wins[index]]
        found: list[StandIn] = []
        covered = reached.copy()
        for index in chosen:
            hits = distances[index] <= eps
            if hits.any():
                found.append(_stand_in(cluster, candidates[index], distances[index], int(wins[index])))
                covered |= hits
        while not covered.all() and len(found) < self._space.max_stand_ins:
            new = ((distances <= eps) & ~covered).sum(axis=1)
            index = int(new.argmax())
            if new[index] == 0:
                break
            covered |= distances[index] <= eps
            found.append(_stand_in(cluster, candidates[index], distances[index], int(new[index])))
        return found, covered

    def _refine(self, cluster: TargetCluster) -> None:
        """Local search around the candidates that members lie nearest to."""
        for _ in range(self._space.local_rounds):
            keys = list(self._candidates)
            distances = np.stack(
                [_distances(cluster.members, self._candidates[key].vectors).min(axis=1) for key in keys]
            )
            wins = np.bincount(distances.argmin(axis=0), minlength=len(keys))
            best = [keys[int(index)] for index in np.argsort(-wins, kind="stable")[: self._space.keep] if wins[index]]
            before = len(self._candidates)
            for index, degradation in best:
                for neighbour in _neighbours(degradation):
                    self._embed(index, neighbour)
            if len(self._candidates) == before:
                return

    def _embed(self, index: int, degradation: Degradation) -> None:
        key = (index, degradation)
        if key in self._candidates:
            return
        source = self._sources[index]
        received = receive(source.low, degradation, source.clip.fps)
        self._candidates[key] = _Candidate(source, degradation, self._embedder.segments(received))


def _sources(clips: Iterable[tuple[Clip, View]], frames: int) -> list[_Source]:
    sources = []
    for clip, view in clips:
        high = load_view(clip, replace(view, limit=frames))
        if high is not None:
            sources.append(_Source(clip, view, shrink(high, 2)))
    return sources


def _neighbours(point: Degradation) -> tuple[Degradation, ...]:
    moves = [replace(point, gain=round(min(1.0, max(0.2, point.gain * factor)), 3)) for factor in (0.87, 1.15)]
    moves += [replace(point, noise=round(max(0.0, point.noise + step), 2)) for step in (-3.0, 3.0)]
    moves += [replace(point, crf=min(48.0, max(16.0, point.crf + step))) for step in (-2.0, 2.0)]
    moves += [point.with_seed(point.seed + 1)]
    return tuple(moves)


def _distances(members: Vectors, vectors: Vectors) -> NDArray[np.float64]:
    difference = members[:, None, :].astype(np.float64) - vectors[None, :, :]
    return np.asarray(np.sqrt((difference**2).sum(axis=2)))


def _reached(members: Vectors, vectors: Vectors, eps: float) -> NDArray[np.bool_]:
    if len(vectors) == 0:
        return np.zeros(len(members), dtype=bool)
    return np.asarray(_distances(members, vectors).min(axis=1) <= eps)


def _stand_in(cluster: TargetCluster, candidate: _Candidate, distances: NDArray[np.float64], reached: int) -> StandIn:
    return StandIn(
        cluster.id,
        candidate.source.clip.id,
        candidate.source.view,
        candidate.degradation,
        candidate.vectors,
        float(distances.min()),
        reached,
    )


def _weighted(shares: dict[str, float], members: dict[str, int]) -> float:
    total = sum(members.values())
    return sum(shares[name] * members[name] for name in shares) / total if total else 1.0


def _label(condition: Degradation) -> str:
    return f"gain{condition.gain:g}-noise{condition.noise:g}-crf{condition.crf:g}"
