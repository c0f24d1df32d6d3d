"""The curation service: clusters, stand-ins, coverage."""

from __future__ import annotations

from fastapi import APIRouter

from contracts.wire import ClusterList, ClusterMap, ClusterPoint
from tests.dashboard.twin.state import EVIL, NOW, Refusal, Twin


def curation_routes(twin: Twin) -> APIRouter:
    """The curation service: clusters, stand-ins, coverage."""
    router = APIRouter()

    @router.get("/curation/v1/clusters")
    def clusters(limit: int, cohort: str = "", cursor: int = 0) -> ClusterList:
        wanted = [one for one in twin.clusters if not cohort or cohort in one.cohorts]
        end = cursor + limit
        return ClusterList(items=tuple(wanted[cursor:end]), next_cursor=str(end) if end < len(wanted) else None)

    @router.get("/curation/v1/cluster-map")
    def cluster_map(cohort: str = "") -> ClusterMap:
        points = [
            ClusterPoint(
                id=one.id,
                label=one.label,
                members=one.members,
                centroid=one.centroid,
                state=one.coverage.state if one.coverage else None,
            )
            for one in twin.clusters
            if not cohort or cohort in one.cohorts
        ]
        return ClusterMap(items=tuple(points[:1_000]), complete=len(points) <= 1_000)

    @router.get("/curation/v1/clusters/{cluster_id}")
    def cluster(cluster_id: str) -> dict[str, object]:
        known = next((one for one in twin.clusters if one.id == cluster_id), None)
        if known is None:
            raise Refusal(404, f"cluster {cluster_id} is unknown or its run was forgotten; list the clusters again")
        listed = [
            {"segment_id": f"s-{n}", "cohort": "npu-4t/indoor-night", "score_mean": 3.0 - n / 100, "kept": n < 4}
            for n in range(known.members)
        ]
        vectors = [(0.01 * n, 0.02 * (n % 7), *(0.0,) * 30) for n in range(known.members)]
        return {**known.model_dump(mode="json"), "medoid_id": "s-3", "listed": listed, "member_vectors": vectors}

    @router.get("/curation/v1/clusters/{cluster_id}/stand-ins")
    def stand_ins(cluster_id: str) -> dict[str, object]:
        clip = {"revision": "m2", "video": f"kids-{EVIL}", "condition": "gain0.4-noise8-crf32", "members": 41}
        found = {"cluster_id": cluster_id, "revision": "m2", "eps_cov": 0.4, "members": 61, "further": 2}
        return {**found, "items": [{**clip, "reached": 33, "nearest": 0.213}]}

    @router.get("/curation/v1/coverage")
    def coverage() -> dict[str, object]:
        after = {"revision": "m2", "vectors": 900, "share": 0.81, "low": 0.76, "high": 0.85, "members": 262}
        counts = {"covered": 212, "covered_clusters": 1, "partial_clusters": 1, "uncovered_clusters": 1}
        before = {**after, "revision": "seed", "share": 0.42, "low": 0.36, "high": 0.48}
        report = {"run_id": "run-7", "created": NOW, "segments": 300, "clusters": 3, "uncovered": 1}
        return {**report, "before": before | counts, "after": after | counts} if twin.clusters else {}

    return router
