"""False discovery rate over cohorts (Benjamini and Hochberg 1995)."""

from __future__ import annotations

from collections.abc import Sequence


def discoveries(p_values: Sequence[float], rate: float) -> tuple[bool, ...]:
    """Tell which hypotheses are rejected so that at most `rate` of the rejections are expected to be false.

    The largest rank k with p(k) <= rate * k / n decides; everything up to it is rejected.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    last = 0
    for rank, index in enumerate(order, start=1):
        if p_values[index] <= rate * rank / len(p_values):
            last = rank
    rejected = set(order[:last])
    return tuple(index in rejected for index in range(len(p_values)))
