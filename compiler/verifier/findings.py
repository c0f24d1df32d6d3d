"""What the verifier reports."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.verifier.limits import LIMITS


@dataclass(frozen=True)
class Finding:
    """One broken rule of ``docs/reference/program.md``. ``command`` is the index in the stream, -1 for the
    profile.
    """

    profile: str
    command: int
    rule: str
    message: str

    def __str__(self) -> str:
        where = f"command {self.command}" if self.command >= 0 else "profile"
        return f"{self.profile} {where}: {self.rule}: {self.message}"


class Report:
    """Collects findings of one profile, with a cap so that a hostile program cannot fill memory."""

    def __init__(self, profile: str, cap: int = LIMITS.findings) -> None:
        self.profile = profile
        self.findings: list[Finding] = []
        self._cap = cap

    def add(self, command: int, rule: str, message: str) -> None:
        """Record a broken rule."""
        if len(self.findings) < self._cap:
            self.findings.append(Finding(self.profile, command, rule, message))
