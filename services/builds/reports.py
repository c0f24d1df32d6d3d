"""The compiler's report of a stored bundle: memory map, timeline, placement, sizes; what `edgeloop inspect` shows.

Read back from the bundle itself, which never changes, so what was read is kept beside it under the same digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from compiler.html.lanes import lanes
from compiler.html.svg import merged
from compiler.inspection import facts
from compiler.measures.views import FileView, ProfileView, ProgramView, view_file
from contracts.wire.bundle_report import BundleReport, LaneReport, ProfileReport
from services.builds import service
from services.builds.limits import REPORTS
from services.builds.models import BuildRow
from services.builds.problems import NoSuchProfile
from services.kit.storage import store

Json = Mapping[str, Any]  # Any: JSON of the compiler's facts


def report(row: BuildRow) -> BundleReport:
    """The summary of the build's bundle; raises NotReady while there is none."""
    source = service.bundle_key(row)
    key = f"builds/reports/{row.digest}.v{REPORTS.version}.json"
    if store().exists(key):
        return BundleReport.model_validate_json(store().get(key)).model_copy(update={"build_id": row.id})
    found = facts(view_file(store().path(source)))
    made = BundleReport.model_validate({**found, "build_id": row.id, "programs": _numbered(found)})
    store().put(key, made.model_dump_json().encode())
    return made


def profile(row: BuildRow, number: int) -> ProfileReport:
    """One program at one input size in full, kept like the summary; raises NotReady and NoSuchProfile."""
    key = f"builds/reports/{row.digest}.v{REPORTS.version}.{number}.json"
    if row.bundle_key and store().exists(key):
        return ProfileReport.model_validate_json(store().get(key))
    made = _profile(row, number)
    store().put(key, made.model_dump_json().encode())
    return made


def _profile(row: BuildRow, number: int) -> ProfileReport:
    view = view_file(store().path(service.bundle_key(row)))
    pairs = _pairs(view)
    if number >= len(pairs):
        raise NoSuchProfile(f"the bundle of build {row.id} has {len(pairs)} profiles, counted from 0; {number} is none")
    program, chosen = pairs[number]
    frame = chosen.frame()
    only = FileView(view.file, view.size, programs=(_alone(program, chosen),))
    told = _list(_list(facts(only)["programs"])[0]["profiles"])[0]
    ranges = sorted(_list(told["ranges"]), key=lambda one: (-int(one["size"]), int(one["offset"])))
    rows = lanes(chosen.commands, frame.estimate.events)
    end = frame.estimate.total_ns
    return ProfileReport.model_validate(
        {
            "number": number,
            "target": program.target,
            "core": program.core,
            "program": program.name,
            "profile": chosen.profile.name,
            "array_model": frame.model.name,
            "frame_ns": end,
            "sram_bytes": chosen.spec.sram_bytes,
            "sram_peak": chosen.profile.sram_peak,
            "kernels": _list(told["kernels"])[: REPORTS.kernels],
            "ranges": [{**one, "kind": str(one["kind"])} for one in ranges[: REPORTS.ranges]],
            "further_ranges": max(0, len(ranges) - REPORTS.ranges),
            "lanes": [
                _lane(row.name, row.queue, [(b.event.start_ns, b.event.end_ns) for b in row.bars], end)
                for row in rows[: REPORTS.lanes]
            ],
            "further_lanes": max(0, len(rows) - REPORTS.lanes),
        }
    )


def _alone(program: ProgramView, chosen: ProfileView) -> ProgramView:
    return replace(program, profiles=(chosen,))


def _pairs(view: FileView) -> list[tuple[ProgramView, ProfileView]]:
    return [(program, chosen) for program in view.programs for chosen in program.profiles]


def _numbered(found: Json) -> list[Json]:
    """The programs with their profiles numbered in the order of `_pairs`."""
    made: list[Json] = []
    number = 0
    for program in _list(found["programs"]):
        profiles = []
        for one in _list(program["profiles"]):
            profiles.append({**one, "number": number})
            number += 1
        made.append({**program, "profiles": profiles})
    return made


def _lane(name: str, queue: str, spans: Iterable[tuple[float, float]], end_ns: float) -> LaneReport:
    ordered = sorted(spans)
    busy = sum(stop - start for start, stop in ordered)
    shown = merged(ordered, end_ns / REPORTS.steps, 0.0)
    return LaneReport(name=name, queue=queue, busy_ns=busy, spans=tuple(shown))


def _list(value: object) -> list[Json]:
    assert isinstance(value, list)
    return value
