"""Independent verifier: checks a program from its command stream alone, knowing nothing of the planner."""

from __future__ import annotations

from compiler.verifier.findings import Finding
from compiler.verifier.verify import verify_program

__all__ = ["Finding", "verify_program"]
