"""False discoveries over the tree of cohorts: device classes, then scenarios."""

from __future__ import annotations

import numpy as np
import pytest

from services.drift.domain.discovery import simes, tree_discoveries


def test_simes_is_the_least_of_the_scaled_order_statistics() -> None:
    assert simes([0.04, 0.01, 0.5]) == pytest.approx(0.03)
    assert simes([0.2]) == 0.2


def test_a_family_in_which_nothing_happens_is_never_opened() -> None:
    families = {"a": {"a/x": 1e-6, "a/y": 0.6}, "b": {"b/x": 0.3, "b/y": 0.9}, "empty": {}}
    assert tree_discoveries(families, 0.05) == {("a", "a/x")}
    assert tree_discoveries({}, 0.05) == frozenset()


def test_leaves_pay_for_the_families_that_were_not_opened() -> None:
    quiet = {f"q{i}": {f"q{i}/x": 0.8} for i in range(9)}
    suspect = {"a": {"a/x": 1e-5, "a/y": 0.01}}
    assert tree_discoveries(suspect, 0.05) == {("a", "a/x"), ("a", "a/y")}
    assert tree_discoveries({**suspect, **quiet}, 0.05) == {("a", "a/x")}


def test_single_cohorts_of_many_classes_are_judged_as_without_a_tree() -> None:
    rng = np.random.default_rng(0)
    p = [*rng.uniform(size=40).tolist(), 1e-4, 2e-4, 4e-3]
    families = {f"c{i}": {f"c{i}/x": value} for i, value in enumerate(p)}
    found = {name for name, _ in tree_discoveries(families, 0.05)}
    assert {"c40", "c41"} <= found


def test_the_share_of_false_discoveries_in_opened_families_stays_under_its_rate() -> None:
    rng, shares = np.random.default_rng(1), []
    for _ in range(400):
        families = {f"f{i}": {f"f{i}/{j}": float(rng.uniform()) for j in range(10)} for i in range(10)}
        for name in ("f0", "f1"):
            families[name].update({f"{name}/{j}": float(rng.uniform(0, 1e-5)) for j in range(3)})
        found = tree_discoveries(families, 0.1)
        opened = {family for family, _ in found}
        false = {leaf for family, leaf in found if family not in ("f0", "f1") or int(leaf.split("/")[1]) > 2}
        total = {family: sum(1 for one, _ in found if one == family) for family in opened}
        wrong = [sum(1 for leaf in false if leaf.startswith(f"{name}/")) / total[name] for name in opened]
        shares.append(float(np.mean(wrong)) if wrong else 0.0)
    assert np.mean(shares) <= 0.1
