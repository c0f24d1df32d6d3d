"""What a verdict must remember from look to look: crashes already bet on, bootstrap paths that crossed.

Everything else is computed from the devices anew. `watch` is the only way forward; it is called once for each look,
in the transaction that stores the look.

Invariants: pure; the JSON form gives the same memory back; strata that meet their first crash late join then.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.releases.verdict.crashes import LOG_ODDS, CrashEvidence
from services.releases.verdict.evidence import Evidence
from services.releases.verdict.guardrails import VerdictPolicy
from services.releases.verdict.intervals import Interval
from services.releases.verdict.sequential_bootstrap import PathState
from services.releases.verdict.tails import Resampled, TailLook, follow, plan_of

Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Memory:
    """Crash evidence by stratum, tail looks by metric."""

    crashes: Mapping[str, CrashEvidence] = field(default_factory=dict)
    tails: Mapping[str, TailLook] = field(default_factory=dict)

    def pooled_crashes(self) -> CrashEvidence:
        """All strata together, each against its own control."""
        return sum(self.crashes.values(), CrashEvidence())

    def spent(self) -> float:
        """Alpha that the tails have used."""
        return float(sum(tail.state.spent for tail in self.tails.values()))

    def to_json(self) -> Json:
        """For a database row."""
        return {
            "crashes": {
                name: {"count": found.crashes, "log_likelihood": [float(one) for one in found.log_likelihood]}
                for name, found in self.crashes.items()
            },
            "tails": {name: _tail_to_json(tail) for name, tail in self.tails.items()},
        }

    @staticmethod
    def from_json(document: Json, policy: VerdictPolicy) -> Memory:
        """Undo `to_json`; what another policy remembered (other grid, other paths) is begun anew."""
        crashes = {
            name: CrashEvidence(found["count"], np.array(found["log_likelihood"], dtype=np.float64))
            for name, found in document.get("crashes", {}).items()
            if len(found["log_likelihood"]) == LOG_ODDS.size
        }
        paths = plan_of(policy).paths
        tails = {
            name: _tail_from_json(found) for name, found in document.get("tails", {}).items() if found["paths"] == paths
        }
        return Memory(crashes, tails)


def watch(memory: Memory, evidence: Evidence, policy: VerdictPolicy) -> Memory:
    """Memory after this look: new crashes are bet on, tails are looked at when it is their time."""
    crashes = dict(memory.crashes)
    for name, table in evidence.crashes.items():
        crashes[name] = crashes.get(name, CrashEvidence()).add(table)
    tails = dict(memory.tails)
    if evidence.tail is not None and not evidence.first_release:
        time, arms = information(evidence), Resampled(evidence.tail, policy)
        for guard in policy.tails:
            tails[guard.name] = follow(memory.tails.get(guard.name), guard, arms, time)
    return Memory(crashes, tails)


def information(evidence: Evidence) -> float:
    """How much of the rollout's canary evidence is in, in [0, 1]: stages behind, and the part of this one heard."""
    meant = max(sum((evidence.targeted or {}).values()), 1)
    return (evidence.stage + min(evidence.pooled.canary.devices / meant, 1.0)) / max(evidence.stages, 1)


def _tail_to_json(tail: TailLook) -> Json:
    state, interval = tail.state, tail.interval
    return {
        "paths": int(state.crossed.size),
        "crossed": base64.b64encode(np.packbits(state.crossed).tobytes()).decode(),
        "time": state.time,
        "ranks": state.ranks,
        "critical": state.critical if math.isfinite(state.critical) else None,
        "interval": [interval.estimate, interval.lower, interval.upper] if interval else None,
        "canary": tail.canary,
        "control": tail.control,
    }


def _tail_from_json(found: Json) -> TailLook:
    bits = np.frombuffer(base64.b64decode(found["crossed"]), dtype=np.uint8)
    state = PathState(
        crossed=np.unpackbits(bits)[: found["paths"]].astype(bool),
        time=found["time"],
        ranks=found["ranks"],
        critical=math.inf if found["critical"] is None else found["critical"],
    )
    interval = Interval(*found["interval"]) if found["interval"] else None
    return TailLook(state, interval, found["canary"], found["control"])
