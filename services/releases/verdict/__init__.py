"""Automatic verdicts on rollouts: pure statistics, no I/O.

`gather` turns device rows into evidence, `watch` carries what must be remembered from look to look, `judge` turns both
into a decision.
"""

from services.releases.verdict.evidence import POOLED, Arm, DeviceHealth, DeviceInstall, Evidence, gather
from services.releases.verdict.findings import Finding, Reading
from services.releases.verdict.guardrails import VerdictPolicy
from services.releases.verdict.judge import Decision, Judgement, judge
from services.releases.verdict.memory import Memory, watch
from services.releases.verdict.rates import clean_canary
from services.releases.verdict.tails import Tail

__all__ = [
    "POOLED",
    "Arm",
    "Decision",
    "DeviceHealth",
    "DeviceInstall",
    "Evidence",
    "Finding",
    "Judgement",
    "Memory",
    "Reading",
    "Tail",
    "VerdictPolicy",
    "clean_canary",
    "gather",
    "judge",
    "watch",
]
