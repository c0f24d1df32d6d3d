"""Write a run's artefacts into its folder, each when its step is done and once; MLflow gets them with the folder.

They are evidence beside the run, made from its results. A picture that cannot be drawn is said in the log and never
stops a run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from contracts.wire.search import SearchRecord
from flows.artefacts.contact_sheet import contact_sheet
from flows.artefacts.front import candidates, front_svg, points_of
from flows.artefacts.png import to_png
from flows.artefacts.record import search_record
from flows.artefacts.sheets import accuracy_report, accuracy_text, architecture_sheet, constraint_sheet, data_list
from flows.run_folder import Json
from flows.search.table import OperatorTable
from flows.steps.context import RunContext
from flows.steps.learn import DDR_LIMIT

_log = logging.getLogger(__name__)


def after_hard_set(run: RunContext, hard: Json) -> None:
    """`data_list.json`, `contact_sheet.png` and `contact_sheet.json`."""
    given = {
        "parent-model.onnx": run.parent.model,
        "quality.onnx": run.parent.quality,
        "observer.npz": run.parent.observer,
    }

    def sheet() -> None:
        picture, legend = contact_sheet(hard["stand_ins"], {clip.id: clip for clip in run.corpus.clips})
        run.folder.write_json("contact_sheet.json", {"left": "clean", "right": "received", "tiles": legend})
        run.folder.write("contact_sheet.png", to_png(picture))

    _once(run, "data_list.json", lambda: run.folder.write_json("data_list.json", data_list(run.corpus, hard, given)))
    _once(run, "contact_sheet.png", sheet)


def after_operators(run: RunContext, measured: Json) -> None:
    """`constraints.json`."""

    def sheet() -> None:
        wanted = run.settings
        facts = dict(measured["facts"])
        found = constraint_sheet(wanted.targets, wanted.profiles, wanted.latency_limit, DDR_LIMIT, facts)
        run.folder.write_json("constraints.json", found)

    _once(run, "constraints.json", sheet)


def after_search(run: RunContext, searched: Json) -> None:
    """`architecture.json` with the operator table, and `front.svg`."""

    def sheet() -> None:
        table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
        marked = [point.architecture for point in candidates(points_of(searched["evaluated"]), searched["chosen"])]
        run.folder.write_json("architecture.json", architecture_sheet(searched, table, run.settings.profiles, marked))

    _once(run, "architecture.json", sheet)
    _once(
        run,
        "front.svg",
        lambda: run.folder.write("front.svg", front_svg(searched, run.settings.latency_limit).encode()),
    )


def told_search(run: RunContext, searched: Json) -> SearchRecord | None:
    """What the platform is told of the search with the build; None, and a line in the log, where it makes no record."""
    try:
        return search_record(searched, run.settings.latency_limit)
    except (ValueError, KeyError, TypeError):  # evidence beside the run: the run goes on
        _log.exception("run %s tells the platform nothing of its search", run.key)
        return None


def after_proof(run: RunContext, proved: Json, quantised: Json) -> None:
    """`accuracy.json` and `accuracy.md`."""

    def both() -> None:
        report = accuracy_report(proved, quantised)
        run.folder.write("accuracy.md", accuracy_text(report).encode())
        run.folder.write_json("accuracy.json", json.loads(json.dumps(report)))

    _once(run, "accuracy.json", both)


def _once(run: RunContext, name: str, make: Callable[[], object]) -> None:
    if run.folder.has(name):
        return
    try:
        make()
    except Exception:  # evidence beside the run: whatever drawing it does, the run goes on
        _log.exception("artefact %s of run %s is missing", name, run.key)
