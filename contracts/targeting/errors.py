"""What is wrong with a rule, where, and what to write instead."""

from __future__ import annotations


class RuleError(ValueError):
    """The text is no rule. `position` counts characters from 0; the message has them from 1, for people."""

    def __init__(self, position: int, problem: str, remedy: str) -> None:
        self.position, self.problem, self.remedy = position, problem, remedy
        super().__init__(f"character {position + 1}: {problem}; {remedy}")

    def pointed(self, text: str) -> str:
        """The rule with a mark under the place, for a terminal."""
        return f"{text}\n{' ' * self.position}^ {self.problem}; {self.remedy}"
