"""How devices behave on the bundle that they run: good, or in one of the ways in which releases go wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edge_agent.errors import ConfigError

BUDGET_MS = 33.3


@dataclass(frozen=True)
class Behaviour:
    """Chances a device (not a report), and what it measures. `only_class` limits the harm to one device class."""

    trial_failure: float = 0.002
    crash: float = 0.002
    silent: float = 0.0
    latency_factor: float = 1.0
    quality_loss_db: float = 1.0
    fidelity_lsb: float = 2.0
    error_share: float = 0.03
    cut_downloads: float = 0.0
    tampered: float = 0.0
    lies_about_version: float = 0.0
    repeats_feedback: float = 0.02
    only_class: str = ""


GOOD = Behaviour()
SCENARIOS: Mapping[str, Behaviour] = {
    "good": GOOD,
    "crashing": replace(GOOD, crash=0.01),
    "slow": replace(GOOD, latency_factor=1.2, only_class="npu-2t"),
    "blurry": replace(GOOD, quality_loss_db=1.3),
    "failing": replace(GOOD, trial_failure=0.3),
    "silent": replace(GOOD, silent=0.4),
    "weak-network": replace(GOOD, cut_downloads=0.5),
    "tampered": replace(GOOD, tampered=1.0),
    "liar": replace(GOOD, lies_about_version=0.5),
}


def scenario(name: str) -> Behaviour:
    """The behaviour of that name. Raises ConfigError."""
    if name not in SCENARIOS:
        raise ConfigError(f"there is no scenario {name!r}; known: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


@dataclass(frozen=True)
class Character:
    """What does not change from report to report: a device's own bias and its fate on a bundle."""

    bias: float
    fails_trial: bool
    crashes: bool
    silent: bool
    tampered: bool
    lies: bool
    errs: bool

    @staticmethod
    def of(behaviour: Behaviour, device_id: str, digest: str, seed: int) -> Character:
        """Drawn from device, bundle and seed: the same device meets the same fate again."""
        draw = random.Random(f"{seed}/{device_id}/{digest}")
        own = random.Random(f"{seed}/{device_id}")
        return Character(
            bias=own.gauss(0.0, 1.0),
            fails_trial=draw.random() < behaviour.trial_failure,
            crashes=draw.random() < behaviour.crash,
            silent=draw.random() < behaviour.silent,
            tampered=draw.random() < behaviour.tampered,
            lies=draw.random() < behaviour.lies_about_version,
            errs=draw.random() < behaviour.error_share,
        )


def measured(behaviour: Behaviour, character: Character, draw: random.Random) -> dict[str, float | int]:
    """The numbers of one health report over 100 frames."""
    relative = 0.67 * behaviour.latency_factor * 2.718281828 ** (0.05 * character.bias + draw.gauss(0.0, 0.05))
    return {
        "frames": 100,
        "upscaled": 100,
        "driver_errors": int(character.errs and draw.random() < 0.3),
        "latency_p50_ms": 0.8 * relative * BUDGET_MS,
        "latency_p99_ms": relative * BUDGET_MS,
        "latency_relative_p99": relative,
        "fidelity_lsb": max(0.1, behaviour.fidelity_lsb + 0.5 * character.bias + draw.gauss(0.0, 0.3)),
        "score_mean": behaviour.quality_loss_db + 0.4 * character.bias + draw.gauss(0.0, 0.4),
        "crashes": int(character.crashes and draw.random() < 0.5),
    }
