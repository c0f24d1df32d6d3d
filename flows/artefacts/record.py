"""The search as the platform is told of it: every judged network with quality, latency and size, the choice marked."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.wire.search import MOST_CANDIDATES, SearchCandidate, SearchRecord
from flows.artefacts.front import Point, fronts, points_of
from flows.run_folder import Json
from flows.tasks.vsr.architecture import Architecture


def search_record(searched: Json, limit: float) -> SearchRecord:
    """`search.json` as a message; `limit` is the largest latency ratio that the search allowed.

    Networks that differ only in stages without a block are one. Of more than `MOST_CANDIDATES` those of the first
    fronts are told, with the chosen one and production. Raises ValueError where the chosen one was not judged.
    """
    points = points_of(searched["evaluated"])
    layers = fronts(points)
    first = {(point.latency, point.psnr) for layer in layers[:1] for point in layer}
    named = {name_of(searched["chosen"]), name_of(searched["inherited"])}
    told = {name_of(point.architecture): point for point in _told(layers, named)}
    return SearchRecord(
        latency_limit=limit,
        judged=len(points),
        space=int(searched["space"]),
        candidates=tuple(
            SearchCandidate(
                name=name,
                quality_db=round(point.psnr, 4),
                latency_ratio=round(point.latency, 6),
                weights=Architecture.from_json(point.architecture).parameters(),
                front=(point.latency, point.psnr) in first,
                chosen=name == name_of(searched["chosen"]),
                production=name == name_of(searched["inherited"]),
            )
            for name, point in sorted(told.items(), key=lambda item: (item[1].latency, -item[1].psnr, item[0]))
        ),
    )


def name_of(architecture: str) -> str:
    """A network in short: trunk, then depth x inner width of every stage (0 for one without blocks)."""
    net = Architecture.from_json(architecture)
    stages = (f"{one.depth}x{one.mid}" + ("k5" if one.kernel == 5 else "") if one.depth else "0" for one in net.stages)
    return f"{net.trunk}: " + " ".join(stages)


def _told(layers: Sequence[Sequence[Point]], named: set[str]) -> list[Point]:
    """One point a name, of the earliest front; those that must be told before all others."""
    seen: dict[str, Point] = {}
    for layer in layers:
        for point in layer:
            seen.setdefault(name_of(point.architecture), point)
    ordered = sorted(seen, key=lambda name: name not in named)
    return [seen[name] for name in ordered[:MOST_CANDIDATES]]
