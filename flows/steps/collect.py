"""First step: what the platform knows about the hard examples."""

from __future__ import annotations

import numpy as np

from contracts.wire import CoverageState
from flows.errors import NothingToDo
from flows.hardset import TargetCluster
from flows.run_folder import Json
from flows.steps.context import RunContext


def collect(run: RunContext) -> Json:
    """Fetch uncovered clusters with their members' vectors. Raises NothingToDo when all are covered."""
    clusters = [
        c for c in run.platform.clusters() if c.coverage is None or c.coverage.state is not CoverageState.COVERED
    ]
    wanted = [c for c in clusters if c.members >= 2]
    if not wanted:
        raise NothingToDo("every hard cluster is covered by the training set; nothing to retrain for")
    eps = max(c.coverage.eps_cov for c in wanted if c.coverage is not None) if any(c.coverage for c in wanted) else 0.0
    return {
        "parent": run.parent.name,
        "corpus": run.corpus.digest(),
        "eps": eps,
        "clusters": [
            {
                "id": c.id,
                "members": c.members,
                "score": c.score_mean,
                "cohorts": c.cohorts,
                "vectors": [list(v) for v in (c.member_vectors or (c.medoid,))],
            }
            for c in wanted
        ],
    }


def target_clusters(collected: Json) -> list[TargetCluster]:
    """Clusters as the hard-set search wants them."""
    return [
        TargetCluster(str(row["id"]), np.asarray(row["vectors"], dtype=np.float32)) for row in collected["clusters"]
    ]
