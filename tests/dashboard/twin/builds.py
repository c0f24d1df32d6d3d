"""The builds service: builds and what it tells of their bundles."""

from __future__ import annotations

from fastapi import APIRouter

from contracts.wire import Build, BuildList
from tests.dashboard.twin.reports import bundle_report, frame_report
from tests.dashboard.twin.state import Refusal, Twin


def builds_routes(twin: Twin) -> APIRouter:
    """The builds service: builds and what it tells of their bundles."""
    router = APIRouter()

    @router.get("/builds/v1/builds")
    def builds(limit: int, cursor: int = 0) -> BuildList:
        listed, end = tuple(twin.builds.values()), cursor + limit
        return BuildList(items=listed[cursor:end], next_cursor=str(end) if end < len(listed) else None)

    @router.get("/builds/v1/builds/{build_id}/search")
    def search(build_id: str) -> dict[str, object]:
        return {"build_id": build_id, "search": twin.searches.get(build_id)}

    @router.get("/builds/v1/builds/{build_id}/report")
    def report(build_id: str) -> dict[str, object]:
        if build_id not in twin.builds or not twin.builds[build_id].digest:
            raise Refusal(409, f"build {build_id} is compiling and has no bundle")
        return bundle_report(build_id, slower=1.25 if build_id == "b-3" else 1.0)

    @router.get("/builds/v1/builds/{build_id}/report/profiles/{number}")
    def profile_report(build_id: str, number: int) -> dict[str, object]:
        if number > 1:
            raise Refusal(404, f"the bundle of build {build_id} has 2 profiles, counted from 0; {number} is none")
        return frame_report(number)

    @router.get("/builds/v1/builds/{build_id}")
    def build(build_id: str) -> Build:
        if build_id not in twin.builds:
            raise Refusal(404, f"build {build_id} is unknown")
        return twin.builds[build_id]

    return router
