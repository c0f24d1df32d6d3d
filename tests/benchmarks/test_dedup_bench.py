"""The bench of clustering: its small sets keep their promises, and its ways to the labels agree."""

from __future__ import annotations

import pytest

from benchmarks.clustering.measure import METHODS, measured
from benchmarks.clustering.small import small_figures


def test_every_figure_of_small_sets_keeps_its_promise() -> None:
    assert [figure.id for figure in small_figures() if not figure.ok] == []


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_every_way_to_cluster_gives_the_same_labels_in_its_own_process(kind: str) -> None:
    found = {method: measured(method, kind, 700, 16) for method in METHODS}
    assert len({one.digest for one in found.values()}) == 1
    assert all(one.recall == 1.0 and one.peak > one.grown >= 0 and one.cpu > 0 for one in found.values())


def test_a_clustering_that_ends_badly_says_which_one() -> None:
    with pytest.raises(RuntimeError, match="dense 0 x 16 by scan"):
        measured("scan", "dense", 0, 16)
