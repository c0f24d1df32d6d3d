"""*Models*: the way of each model from the alarm and its clusters over flow, MLflow run, build and gate to the release.

Every step says what is told of it; a step that nobody told of stays open, it is never taken for done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import Build, BuildList, DriftAlarm, DriftAlarmList, GateCheck, RolloutList
from contracts.wire.releases import BundleRecord
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Loaded, Missing, Platform
from services.dashboard.search import ranked, search_of
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/models"
COMPARED = "quantisation."
BY_ALARM, KEPT = "alarm-", 20
"""A run that an alarm asked for is named after the first letters of its id."""
UNTOLD = Missing("bundle", "was not asked: there is no bundle", 404)


@router.get(HOME)
async def show_models(operator: Operator, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
    """A page of models, newest first."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(BuildList, "/builds/v1/builds", limit=LIMITS.page_rows, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "models.html",
        session=operator,
        here=HOME,
        found=found,
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{build_id}")
async def show_model(operator: Operator, build_id: str) -> Response:
    """One model: its lineage, what INT8 costs it, and the search that it comes from."""
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(Build, f"/builds/v1/builds/{segment(build_id)}")
        if isinstance(found, Missing):
            return missing_page(operator, _("Model %(id)s", id=build_id[:64]), found, HOME)
        build = found.value
        bundle, rollouts, alarms, found_search = await asyncio.gather(
            _bundle(platform, build),
            _rollouts(platform, build),
            platform.get(DriftAlarmList, "/drift/v1/alarms", limit=200),
            search_of(platform, build_id),
        )
    told_of = None if isinstance(found_search, Missing) else found_search.value.search
    origin = told(build, None if isinstance(bundle, Missing) else bundle.value)
    listed = () if isinstance(rollouts, Missing) else rollouts.value.items
    return page(
        "model.html",
        session=operator,
        here=HOME,
        build=build,
        bundle=bundle,
        unreleased=isinstance(bundle, Missing) and bundle.status == 404,
        told=origin,
        alarms=alarms,
        alarm=None if isinstance(alarms, Missing) else alarm_of(origin, alarms.value.items),
        rollouts=rollouts,
        rolled=listed,
        compared=compared(build),
        search=found_search,
        candidates=ranked(told_of) if told_of is not None else (),
    )


async def _bundle(platform: Platform, build: Build) -> Loaded[BundleRecord] | Missing:
    if not build.digest:
        return UNTOLD
    return await platform.get(BundleRecord, f"/releases/v1/bundles/{build.digest}")


async def _rollouts(platform: Platform, build: Build) -> Loaded[RolloutList] | Missing:
    if not build.digest:
        return Loaded(RolloutList(items=()))
    return await platform.get(
        RolloutList, "/releases/v1/rollouts", limit=LIMITS.page_rows, looks=0, digest=build.digest
    )


def told(build: Build, bundle: BundleRecord | None) -> Mapping[str, str]:
    """What build and bundle say of where the model comes from; the bundle's word goes first, it was signed for."""
    known = dict(build.lineage)
    if bundle is not None:
        given = bundle.provenance
        known["run"] = given.run or known.get("run", "")
        known["mlflow_run"] = given.mlflow_run or known.get("mlflow_run", "")
        known.update({f"source {name}": digest for name, digest in given.sources.items()})
    return {name: value for name, value in known.items() if value}


def alarm_of(origin: Mapping[str, str], alarms: Iterable[DriftAlarm]) -> DriftAlarm | None:
    """The alarm that asked for the model: told by name, or by the run's key, which begins the alarm's id."""
    named, run = origin.get("alarm", ""), origin.get("run", "")
    begun = run.removeprefix(BY_ALARM) if run.startswith(BY_ALARM) else ""
    return next((one for one in alarms if one.id == named or (begun and one.id[:KEPT] == begun)), None)


def compared(build: Build) -> tuple[GateCheck, ...]:
    """The gate's checks of INT8 against FP32, failed ones first."""
    checks = build.verdict.checks if build.verdict else ()
    return tuple(sorted((one for one in checks if one.id.startswith(COMPARED)), key=lambda one: (one.ok, one.id)))
