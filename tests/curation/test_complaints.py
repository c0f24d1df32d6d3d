"""What users of other tools complained about in curation, each as the behaviour that is right here.

The numbers are those of the list that the issue on the flywheel names.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sqlalchemy import text

from services.curation import ingest, runs, service
from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import RecallTooLow, TooManyPoints, cluster_points
from services.curation.domain.plan import Means
from services.curation.domain.scan.clusters import grow_clusters
from services.curation.domain.scan.grown import Grown
from services.curation.domain.shape import cap_diameter
from services.curation.domain.survivors import choose_survivors
from services.curation.limits import CurationLimits
from services.curation.models import Run
from services.kit.database import transaction
from tests.curation.test_pipeline import (  # noqa: F401  # fixtures
    NOW,
    SETTINGS,
    cluster,
    empty_tables,
    standing_clock,
    two_conditions,
)
from tests.support.http import ApiClient
from tests.support.platform import Tokens


def test_9_a_clustering_that_does_not_fit_is_refused_before_any_work_with_its_estimate() -> None:
    """scikit-learn and FiftyOne died of memory instead."""
    vectors = np.random.default_rng(0).normal(size=(1_000, 32)).astype(np.float32)
    with pytest.raises(TooManyPoints, match=r"1000 distinct segments need about 0\.0 GiB.*shorten the window"):
        cluster_points(collapse(vectors), 0.1, 5, most_points=999)


def test_9_a_thousand_times_the_same_picture_is_one_point_with_a_weight() -> None:
    """scikit-learn holds every neighbourhood: a thousand repeats are a million neighbours."""
    vectors = np.repeat(np.eye(3, 32, dtype=np.float32), 1_000, axis=0)
    collapsed = collapse(vectors)
    assert collapsed.weights.tolist() == [1_000, 1_000, 1_000]
    assert cluster_points(collapsed, 0.1, 5, most_points=3).labels.tolist() == np.repeat([0, 1, 2], 1_000).tolist()


def test_10_no_pair_of_a_cluster_is_farther_apart_than_the_cap_says() -> None:
    """fastdup's component held pairs of a similarity far under its threshold."""
    steps = np.linspace(0.0, 10.0, 500)[:, None] * np.eye(1, 32)
    vectors = steps.astype(np.float32)
    raw = cluster_points(collapse(vectors), 0.1, 3, 1_000).labels
    assert raw.max() == 0, "one component from end to end"
    capped = cap_diameter(vectors, raw, 2 * 0.1)
    widest = max(float(np.ptp(vectors[capped == label, 0])) for label in range(capped.max() + 1))
    assert widest <= 2 * 2 * 0.1 + 1e-6


def test_11_one_false_cluster_of_everything_does_not_delete_a_source() -> None:
    """marin lost 99.9998 % of a source to one cluster of 859,091."""
    count, rare = 20_000, 2_000
    sources = ["rare"] * rare + ["common"] * (count - rare)
    scores = np.random.default_rng(1).random(count)
    names = [f"{number:06d}" for number in range(count)]
    survivors = choose_survivors(np.zeros(count, dtype=np.int64), [0], scores, names, [sources], 10, 0.95)
    assert survivors.kept[:rare].sum() >= 0.05 * rare
    assert survivors.kept[rare:].sum() >= 0.05 * (count - rare)
    assert survivors.guarded == ("common", "rare")


def test_11_a_plan_deletes_nothing_and_only_the_plan_that_was_read_can_be_applied(
    client: ApiClient, tokens: Tokens
) -> None:
    two_conditions()
    run = client.get(f"/curation/v1/runs/{cluster(client, tokens)}", token=tokens.operator).json()
    path = f"/curation/v1/runs/{run['id']}/apply"
    assert client.post(path, token=tokens.operator, json={"digest": "f" * 64}).status_code == 409
    with transaction() as session:
        assert session.scalar(text("SELECT count(*) FROM curation.segments WHERE dropped_by IS NOT NULL")) == 0
        assert session.scalar(text("SELECT count(*) FROM curation.segments")) == 50
    assert client.post(path, token=tokens.operator, json={"digest": run["digest"]}).status_code == 200


def test_11_every_cluster_keeps_its_medoid_and_its_hardest() -> None:
    """SemDeDup's code dropped all members over the threshold, its paper kept one."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(40), 25)
    scores, medoids = rng.random(1_000), [25 * label + int(rng.integers(25)) for label in range(40)]
    names = [f"{number:04d}" for number in range(1_000)]
    kept = choose_survivors(labels, medoids, scores, names, [["x"] * 1_000], 3, 0.95).kept
    for label in range(40):
        members = np.flatnonzero(labels == label)
        hardest = members[np.argsort(-scores[members])[:3]]
        assert kept[hardest].all()
        assert kept[medoids[label]]
        assert kept[members].sum() <= 4


def test_12_the_recall_of_a_run_is_audited_recorded_and_shown(client: ApiClient, tokens: Tokens) -> None:
    """faiss searched one cell by default, and nobody saw what was lost."""
    two_conditions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LIMITS", CurationLimits(direct_points=0))
        run_id = cluster(client, tokens)
    assert client.get(f"/curation/v1/runs/{run_id}", token=tokens.service).json()["recall"] == 1.0


def test_12_a_run_whose_recall_is_too_low_fails_and_writes_no_cluster(client: ApiClient, tokens: Tokens) -> None:
    def lossy(vectors: np.ndarray, weights: np.ndarray, eps: float, min_samples: int, *_: None) -> Grown:
        return grow_clusters(vectors, weights, eps / 3, min_samples)

    vectors = np.random.default_rng(1).normal(size=(400, 2)).astype(np.float32)
    with pytest.raises(RecallTooLow, match="nothing was written"):
        cluster_points(collapse(vectors), 0.3, 5, 1_000, direct_points=0, scan=lossy)
    two_conditions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LIMITS", CurationLimits(direct_points=0))
        patch.setattr("services.curation.executors.Means", partial(Means, scan=lossy))
        run_id = cluster(client, tokens)
    run = client.get(f"/curation/v1/runs/{run_id}", token=tokens.service).json()
    assert (run["state"], run["clusters"]) == ("failed", 0)
    assert "0.99" in run["error"]


def test_13_a_run_whose_worker_died_is_done_by_the_next_one(client: ApiClient, tokens: Tokens) -> None:
    """Prefect's runs stayed Running for ever, and ate the concurrency."""
    two_conditions()
    asked = client.post("/curation/v1/runs", token=tokens.operator).json()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "write_plan", _killed)
        with pytest.raises(MemoryError):
            service.run_next(NOW, SETTINGS)
    assert client.get(f"/curation/v1/runs/{asked['id']}", token=tokens.service).json()["state"] == "requested"
    assert service.run_next(NOW, SETTINGS) == asked["id"]
    assert client.get(f"/curation/v1/runs/{asked['id']}", token=tokens.service).json()["state"] == "done"


def test_15_a_failed_run_does_not_swallow_the_next_request(client: ApiClient, tokens: Tokens) -> None:
    """PostHog's permanent key swallowed every run after a failed one."""
    two_conditions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LIMITS", CurationLimits(distinct_points=10))
        failed = cluster(client, tokens)
    again = cluster(client, tokens)
    assert again != failed
    assert client.get(f"/curation/v1/runs/{again}", token=tokens.service).json()["state"] == "done"


def test_16_a_task_that_is_delivered_twice_does_its_work_once() -> None:
    """Redis hands a long Celery task out again after an hour."""
    two_conditions()
    with transaction() as session:
        runs.request_run(session, NOW)
    assert service.run_next(NOW, SETTINGS) is not None
    assert service.run_next(NOW, SETTINGS) is None
    with transaction() as session:
        assert session.query(Run).count() == 1
    for _ in range(2):
        with transaction() as session:
            ingest.sweep(session, NOW, SETTINGS)


def _killed(*_: object) -> None:
    raise MemoryError("the worker was killed")
