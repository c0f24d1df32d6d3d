"""Builds of the newest releases with the gate's checks, and the bundle that their reports read.

All finished builds have the same compiled bundle as their object, under digests of their own: each report is made and
kept for itself, as it would be for different bundles.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.watching.copying import Row
from benchmarks.watching.scale import Scale
from compiler.driver import compile_bundle
from contracts.wire.search import MOST_CANDIDATES, SearchCandidate, SearchRecord
from services.kit.storage import store
from tests.support.agent_twin import toy_observer
from tests.support.models import quality_qdq, vsr_qdq

BUILDS, BUILD_COLUMNS = (
    "builds.builds",
    (
        "id", "name", "release_version", "security_epoch", "state", "request", "inputs", "subject", "digest",
        "size_bytes", "bundle_key", "evidence_key", "verdict", "message", "remedy", "production", "created", "finished",
        "search",
    ),
)  # fmt: skip
TARGETS, SIZES = ("npu-4t", "npu-2t"), ((360, 640), (180, 320))
RULES = (
    "quality.gain", "quality.floor", "quantisation.drop", "identity.pixels", "latency.p99.model", "latency.budget",
    "memory.sram", "memory.ddr", "power.frame", "errors.driver",
)  # fmt: skip
CONDITIONS = ("normal", "hard", "seed-night")
BUNDLE_KEY = "builds/bundles/seeded.elb"


def builds(scale: Scale) -> Iterator[Row]:
    """The builds behind the newest releases; one in six was blocked by the gate."""
    searched = search().model_dump_json()
    for release in range(max(0, scale.releases - scale.builds), scale.releases):
        blocked = release % 6 == 1
        created = scale.created(release) - 7_200
        yield (
            scale.build(release), "vsr-night", scale.version(release), 1, "blocked" if blocked else "passed",
            json.dumps({"lineage": _lineage(scale, release)}), "{}", "service:loop", scale.digest(release), 900_000,
            BUNDLE_KEY, "", json.dumps(verdict(blocked)),
            "the gate blocked this build: 1 check failed" if blocked else "", "", release == scale.releases - 20,
            f"{created:.1f}", f"{created + 900:.1f}", searched,
        )  # fmt: skip


def search() -> SearchRecord:
    """As many networks as a build may tell of, the best of each latency on the front."""
    fronts = [place % 6 == 0 for place in range(MOST_CANDIDATES)]
    networks = (
        SearchCandidate(
            name=f"16: {place}x16", quality_db=30.0 + place / 200 - (0 if front else 0.4), weights=4_000 + 60 * place,
            latency_ratio=0.6 + place / 400, front=front, chosen=place == 180, production=place == 160,
        )
        for place, front in enumerate(fronts)
    )  # fmt: skip
    return SearchRecord(latency_limit=1.04, judged=1_800, space=46_656, candidates=tuple(networks))


def verdict(blocked: bool) -> dict[str, object]:
    """Every rule on every target, size and condition, as the gate writes them."""
    checks: list[dict[str, object]] = [
        {"id": f"{rule}@{target}/{rows}x{columns}/{condition}", "value": 5.9, "limit": 6.3, "unit": "ms", "ok": True}
        for rule in RULES
        for target in TARGETS
        for rows, columns in SIZES
        for condition in CONDITIONS
    ]
    if blocked:
        checks[7] = {**checks[7], "ok": False, "detail": "above the limit"}
    return {"passed": not blocked, "checks": checks, "reasons": ["above the limit"] if blocked else []}


def put_bundle() -> None:
    """Compile a small net for two targets and two sizes and keep it as the object of the builds."""
    with tempfile.TemporaryDirectory(prefix="edgeloop-seed-") as folder:
        path = Path(folder) / "seeded.elb"
        parts = (vsr_qdq(), quality_qdq(), toy_observer().to_bytes())
        compile_bundle(*parts, list(TARGETS), list(SIZES), {}, path, "2026.1.0", 1)
        store().put(BUNDLE_KEY, path.read_bytes())


def _lineage(scale: Scale, release: int) -> dict[str, str]:
    return {"run": f"run-{release}", "alarm": scale.name("alarm", release % 2_000, 32)}
