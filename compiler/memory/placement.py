"""What a placement is, and what is known about how good it is.

Space is handed out in whole alignment units, so two peaks within one unit count as equal: the gap and the proof
are about units. ``bound`` is the most bytes alive at once, and rises when a search proves that less is impossible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Proof(Enum):
    """Why nothing better exists, in words; ``NONE`` when that is not known."""

    BOUND = "optimal (meets the bound)"
    SEARCH = "optimal (proved by search)"
    NONE = "best found"


@dataclass(frozen=True)
class Placement:
    """Offset of each buffer by name, the highest byte used, and the method that found it."""

    offsets: Mapping[str, int]
    peak: int
    method: str
    bound: int = 0
    proof: Proof = Proof.NONE

    @property
    def gap(self) -> float:
        """How far the peak lies above the bound, as a share of the bound; 0 for a proved optimum."""
        if self.proof is not Proof.NONE or not self.bound:
            return 0.0
        return self.peak / self.bound - 1

    @property
    def status(self) -> str:
        """The proof status as it is printed."""
        return self.proof.value if self.proof is not Proof.NONE else f"{self.proof.value}, gap {self.gap:.2%}"
