"""Automatic verdicts on rollouts: pure statistics, no I/O.

`gather` turns device rows into evidence, `judge` turns evidence into a decision.
"""

from services.releases.verdict.evidence import POOLED, Arm, DeviceHealth, DeviceInstall, Evidence, gather
from services.releases.verdict.guardrails import VerdictPolicy
from services.releases.verdict.judge import Decision, Finding, Judgement, Reading, clean_canary, judge

__all__ = [
    "POOLED",
    "Arm",
    "Decision",
    "DeviceHealth",
    "DeviceInstall",
    "Evidence",
    "Finding",
    "Judgement",
    "Reading",
    "VerdictPolicy",
    "clean_canary",
    "gather",
    "judge",
]
