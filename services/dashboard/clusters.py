"""*Hard examples*: clusters of what devices found hard, in a plane; how well training covers them, by which clips."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import Cluster, ClusterList, ClusterMap, ClusterPoint
from contracts.wire.base import Answer
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import missing_page, page, standing
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.projection import Plane, plane
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/clusters"
Text = Annotated[str, Query(max_length=80)]
Cursor = Annotated[str, Query(max_length=512)]
SMALLEST, LARGEST = 5.0, 20.0


class Listed(Answer):
    """A member of a cluster."""

    segment_id: str
    cohort: str
    score_mean: float
    kept: bool


class ClusterDetail(Cluster):
    """A cluster with its hardest members."""

    medoid_id: str = ""
    listed: tuple[Listed, ...] = ()


class StandIn(Answer):
    """A training clip near the cluster."""

    revision: str
    video: str
    condition: str
    members: int
    reached: int
    nearest: float


class StandIns(Answer):
    """What stands in for a cluster."""

    revision: str = ""
    eps_cov: float = 0.0
    members: int = 0
    items: tuple[StandIn, ...] = ()
    further: int = 0


class Whole(Answer):
    """Coverage of all clusters by one training set."""

    revision: str
    vectors: int = 0
    share: float = 0.0
    low: float = 0.0
    high: float = 1.0
    covered_clusters: int = 0
    partial_clusters: int = 0
    uncovered_clusters: int = 0


class CoverageReport(Answer):
    """Coverage before and after the newest training set."""

    run_id: str = ""
    created: float | None = None
    segments: int = 0
    before: Whole | None = None
    after: Whole | None = None


@dataclass(frozen=True)
class Shape:
    """A cluster in the picture. `points` are the corners of a square or a triangle, empty for a circle."""

    cluster: ClusterPoint
    x: float
    y: float
    size: float
    look: str
    points: str


def shapes(clusters: Sequence[ClusterPoint], found: Plane) -> tuple[Shape, ...]:
    """Clusters as shapes, the larger ones first, so that small ones lie above them."""
    most = max((cluster.members for cluster in clusters), default=1)
    made = []
    for cluster, (x, y) in zip(clusters, found.points, strict=True):
        size = SMALLEST + (LARGEST - SMALLEST) * math.sqrt(cluster.members / max(most, 1))
        look = standing(cluster.state) if cluster.state else "unknown"
        made.append(Shape(cluster, x, y, size, look, _corners(look, x, y, size)))
    return tuple(sorted(made, key=lambda shape: (-shape.size, shape.cluster.label)))


def _corners(look: str, x: float, y: float, size: float) -> str:
    steps: tuple[tuple[float, float], ...]
    if look == "busy":
        steps = ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9))
    elif look == "alert":
        steps = ((0.0, -1.2), (1.1, 0.9), (-1.1, 0.9))
    elif look == "unknown":
        steps = ((0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0))
    else:
        return ""
    return " ".join(f"{x + size * right:.1f},{y + size * down:.1f}" for right, down in steps)


@router.get(HOME)
async def show_clusters(operator: Operator, cohort: Text = "", cursor: Cursor = "") -> Response:
    """The newest run's clusters: all in the picture, a page of them in the table."""
    given = {"cohort": cohort.strip()} if cohort.strip() else {}
    asked = {**given, **({"cursor": cursor} if cursor else {})}
    async with Platform(settings().base_url, operator.token) as platform:
        found, drawn, coverage = await asyncio.gather(
            platform.get(ClusterList, "/curation/v1/clusters", limit=LIMITS.page_rows, **asked),
            platform.get(ClusterMap, "/curation/v1/cluster-map", **given),
            platform.get(CoverageReport, "/curation/v1/coverage"),
        )
    following = None if isinstance(found, Missing) else found.value.next_cursor
    items = () if isinstance(drawn, Missing) else drawn.value.items
    flat = plane([cluster.centroid for cluster in items])
    return page(
        "clusters.html",
        session=operator,
        here=HOME,
        found=found,
        drawn=drawn,
        coverage=coverage,
        plane=flat,
        shapes=shapes(items, flat),
        cohort=cohort.strip(),
        more=query_string(given, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{cluster_id}")
async def show_cluster(operator: Operator, cluster_id: str) -> Response:
    """One cluster."""
    address = f"/curation/v1/clusters/{segment(cluster_id)}"
    async with Platform(settings().base_url, operator.token) as platform:
        found, near = await asyncio.gather(
            platform.get(ClusterDetail, address), platform.get(StandIns, address + "/stand-ins")
        )
    if isinstance(found, Missing):
        return missing_page(operator, _("Cluster %(id)s", id=cluster_id[:64]), found, HOME)
    flat = plane(found.value.member_vectors)
    dots = list(zip(flat.points, found.value.listed, strict=False))
    return page("cluster.html", session=operator, here=HOME, cluster=found.value, near=near, plane=flat, dots=dots)
