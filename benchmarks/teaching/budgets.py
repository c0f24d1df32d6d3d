"""How long each stage trains, in CPU seconds of one thread, and what shares of that a test may take.

EDGELOOP_LEARNING_SCALE shortens every budget alike (0.01 for a look at whether everything runs); figures say so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "EDGELOOP_LEARNING_SCALE"


@dataclass(frozen=True)
class Budgets:
    """CPU seconds. `adapted` and `answered` are the incremental side's: of its kept supernet, of its fine-tuning."""

    anchor: float = 540.0
    supernet: float = 540.0
    ranked: float = 45.0
    tuned: float = 120.0
    old: float = 90.0
    retrained: float = 180.0
    adapted: float = 40.0
    answered: float = 165.0

    def scaled(self, scale: float) -> Budgets:
        """All budgets times `scale`."""
        return Budgets(*(getattr(self, name) * scale for name in self.__dataclass_fields__))


def budgets() -> Budgets:
    """The promised budgets, or what the environment makes of them. Raises ValueError for a scale outside 0..1."""
    scale = float(os.environ.get(VARIABLE, "1"))
    if not 0.0 < scale <= 1.0:
        raise ValueError(f"{VARIABLE}={scale:g} must lie above 0 and not above 1")
    return Budgets().scaled(scale)
