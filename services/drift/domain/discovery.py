"""False discovery rate over cohorts (Benjamini and Hochberg 1995), flat and over the tree of cohorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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


def tree_discoveries(families: Mapping[str, Mapping[str, float]], rate: float) -> frozenset[tuple[str, str]]:
    """Tell which leaves of a two-level tree are rejected (Benjamini and Bogomolov 2014).

    `families[family][leaf]` is a p value. A family is opened when Simes' combination of its leaves is a discovery
    among all families; its leaves are then tested at `rate` times the share of families that were opened. So at most
    `rate` of the rejections are expected to be false, on average over the opened families, and a device class in
    which nothing happens does not pay for another in which everything does.
    """
    names = [name for name, leaves in families.items() if leaves]
    opened = [
        name
        for name, hit in zip(
            names, discoveries([simes(list(families[name].values())) for name in names], rate), strict=True
        )
        if hit
    ]
    found: set[tuple[str, str]] = set()
    for name in opened:
        leaves = families[name]
        hits = discoveries(list(leaves.values()), rate * len(opened) / len(names))
        found |= {(name, leaf) for leaf, hit in zip(leaves, hits, strict=True) if hit}
    return frozenset(found)


def simes(p_values: Sequence[float]) -> float:
    """Return the p value of "nothing happened in any of these" (Simes 1986): the least of n p(k) / k."""
    ordered = sorted(p_values)
    return min(len(ordered) * p / rank for rank, p in enumerate(ordered, start=1))
