"""Networks that were judged: each once, in order, with its measured quality and its predicted latency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flows.search.evolution import Numbers
from flows.search.genome import Genome
from flows.search.surrogate import Surrogate, features, fit
from flows.tasks.vsr.architecture import Architecture

Quality = Callable[[Architecture], float]
Latency = Callable[[Architecture], float]


@dataclass(frozen=True)
class Candidate:
    """One evaluated network: dB on the validation pairs, latency relative to the production model."""

    architecture: Architecture
    psnr: float
    latency_ratio: float

    @property
    def genes(self) -> str:
        """Stages as text, for tables."""
        return " ".join(f"{s.depth}x{s.mid}k{s.kernel}" for s in self.architecture.stages)


class Judged:
    """Judges rows of a genome; remembers everything that it was asked."""

    def __init__(self, genome: Genome, quality: Quality, latency: Latency, limit: float) -> None:
        self.genome, self.limit = genome, limit
        self._quality, self._latency = quality, latency
        self._found: dict[Architecture, Candidate] = {}
        self._facts: dict[tuple[float, ...], tuple[Numbers, float]] = {}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Everything judged, in order."""
        return tuple(self._found.values())

    def candidate(self, architecture: Architecture) -> Candidate:
        """The judgement of one network, made when it is new."""
        known = self._found.get(architecture)
        if known is None:
            known = Candidate(architecture, self._quality(architecture), self._latency(architecture))
            self._found[architecture] = known
        return known

    def knows(self, row: Numbers) -> bool:
        """Whether the network of these genes was judged."""
        return self.genome.decode(row.astype(np.int64)) in self._found

    def judge(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """[n, variables] -> [n, (minus dB, latency)] and [n, latency above the limit]."""
        found = [self.candidate(self.genome.decode(row.astype(np.int64))) for row in rows]
        objectives = np.array([[-one.psnr, one.latency_ratio] for one in found])
        return objectives, objectives[:, 1:] - self.limit

    def guess(self, rows: Numbers, model: Surrogate) -> tuple[Numbers, Numbers]:
        """Like `judge` with predicted quality and true latency; judges nothing."""
        facts = [self._facts_of(row) for row in rows]
        quality = model.predict(np.array([columns for columns, _ in facts]))
        latency = np.array([cost for _, cost in facts])
        return np.stack([-quality, latency], axis=1), (latency - self.limit)[:, None]

    def learn(self) -> Surrogate:
        """A surrogate of everything judged so far that the genome can express."""
        known = [one for one in self._found.values() if self.genome.holds(one.architecture)]
        rows = np.array([self._facts_of(np.array(self.genome.encode(one.architecture)))[0] for one in known])
        return fit(rows, np.array([one.psnr for one in known]))

    def _facts_of(self, row: Numbers) -> tuple[Numbers, float]:
        network = self.genome.decode(row.astype(np.int64))
        key = tuple(self.genome.encode(network))
        if key not in self._facts:
            columns = features(np.array([key]), self.genome.upper.astype(np.float64), [network])[0]
            self._facts[key] = (columns, self._latency(network))
        return self._facts[key]
