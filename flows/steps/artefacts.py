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
from flows.artefacts.curves import curves_svg
from flows.artefacts.front import candidates, front_svg, points_of
from flows.artefacts.package import BUNDLE, package_text, release_package
from flows.artefacts.png import to_png
from flows.artefacts.record import search_record
from flows.artefacts.sheets import accuracy_report, accuracy_text, architecture_sheet, constraint_sheet, data_list
from flows.run_folder import Json
from flows.search.table import OperatorTable
from flows.steps.budget import Training, curve_of_training
from flows.steps.context import RunContext
from flows.steps.learn import DDR_LIMIT
from flows.steps.prune import pruning_text
from flows.steps.ship import rollout_request

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

    def listed() -> Json:
        return data_list(run.corpus, hard, given, run.findings)

    _once(run, "data_list.json", lambda: run.folder.write_json("data_list.json", listed()))
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

    def drawn(table: OperatorTable, marked: list[str]) -> Json:
        return architecture_sheet(searched, table, run.settings.profiles, marked, run.task)

    def sheet() -> None:
        table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
        marked = [point.architecture for point in candidates(points_of(searched["evaluated"]), searched["chosen"])]
        run.folder.write_json("architecture.json", drawn(table, marked))

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


def after_proof(run: RunContext, proved: Json, quantised: Json, pruning: Json | None = None) -> None:
    """`accuracy.json` and `accuracy.md`; `pruning` is the sheet of a run that pruned its network."""

    def both() -> None:
        report = accuracy_report(proved, quantised, pruning)
        said = f"\n{pruning_text(pruning)}\n" if pruning else ""
        run.folder.write("accuracy.md", f"{accuracy_text(report)}{said}".encode())
        run.folder.write_json("accuracy.json", json.loads(json.dumps(report)))

    _once(run, "accuracy.json", both)


def after_training(run: RunContext) -> None:
    """`curves.svg`."""

    def picture() -> None:
        curves = {training.name.lower(): curve_of_training(run, training) for training in Training}
        run.folder.write("curves.svg", curves_svg(curves).encode())

    _once(run, "curves.svg", picture)


def after_release(run: RunContext, built: Json, released: Json, pruning: Json | None = None) -> None:
    """`candidate.elb`, `release_package.md` and `release_package.json`: the release package with its roll-back plan."""

    def package() -> None:
        bundle = run.platform.bundle(str(built["id"]))
        asked = rollout_request(run, built)
        settings = {
            "stages": list(asked.stages), "soak_s": asked.soak_s, "min_devices": asked.min_devices,
            "starts_by_itself": run.settings.auto_release,
        }  # fmt: skip
        came_from = {"parent": run.parent.name, "production": built.get("production_before")}
        found = release_package(bundle, built, released, settings, came_from)
        if pruning:
            found["pruning"] = {**pruning, "said": pruning_text(pruning)}
        run.folder.write(BUNDLE, bundle)
        run.folder.write("release_package.md", package_text(found).encode())
        run.folder.write_json("release_package.json", found)

    _once(run, "release_package.json", package)


def _once(run: RunContext, name: str, make: Callable[[], object]) -> None:
    if run.folder.has(name):
        return
    try:
        make()
    except Exception:  # evidence beside the run: whatever drawing it does, the run goes on
        _log.exception("artefact %s of run %s is missing", name, run.key)
