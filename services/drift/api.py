"""HTTP API of drift."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from contracts.clock import clock_from_environment
from contracts.statistics import ObserverError, ObserverParameters
from contracts.wire.drift import CohortList, DriftAlarm, DriftStanding
from contracts.wire.settings import HeldSettings
from services.drift import flow_api, held, ingest, published, queries, service, thresholds
from services.drift.limits import LIMITS, drift_settings, publishing_settings
from services.drift.schemas import (
    CalibrationReport,
    CohortDayDetail,
    CohortDays,
    EvaluationAnswer,
    ObserverAnswer,
    PrivacyStanding,
    PublishDay,
    PublishedAnswer,
    RebaseAnswer,
    RejectedReason,
    SettingList,
    ThresholdChange,
    ThresholdRecord,
)
from services.kit.audit import record
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.pages import Page, PageDep, encode_cursor, page_of
from services.kit.problems import Conflict, MalformedPayload, NotFound, Unavailable, declare

router = APIRouter(tags=["drift"])
router.include_router(flow_api.router)

Reader = Annotated[Subject, requires("drift:read")]
Writer = Annotated[Subject, requires("drift:write")]
CohortName = Annotated[str | None, Query(max_length=80)]


class ObserverConflict(Conflict):
    slug, title = "observer-conflict", "Another observer has this embedding id"


@router.get("/v1/cohorts")
def list_drift_cohorts(_: Reader, session: SessionDep, page: PageDep) -> CohortList:
    """Latest standing of every cohort of the newest embedding."""
    rows = queries.cohorts(session, page, drift_settings())
    more = len(rows) > page.limit
    shown = tuple(rows[: page.limit])
    return CohortList(items=shown, next_cursor=encode_cursor(shown[-1].cohort) if more else None)


@router.get("/v1/standing")
def get_drift_standing(_: Reader, session: SessionDep) -> DriftStanding:
    """Drift at a glance, in one answer: how many cohorts drift, the loudest of them, the newest alarms."""
    return queries.standing(session, drift_settings())


@router.get("/v1/series")
def list_drift_series(
    _: Reader,
    session: SessionDep,
    page: PageDep,
    cohort: CohortName = None,
    embedding_id: Annotated[str | None, Query(max_length=64)] = None,
    from_day: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    from_cohort: CohortName = None,
    to_cohort: CohortName = None,
) -> Page[CohortDayDetail]:
    """Verdicts by cohort and day, for plots; by default of the newest embedding.

    `from_cohort` and `to_cohort` bound the names, both included, in the order of `/v1/cohorts`: a page of cohorts asks
    for its own days only.
    """
    rows = queries.series(session, page, embedding_id, cohort, from_day, (from_cohort, to_cohort))
    return page_of(rows, page, queries.cohort_day, lambda row: (row.day, row.cohort))


@router.get("/v1/loudest")
def list_loudest_cohorts(
    _: Reader,
    session: SessionDep,
    days: Annotated[int, Query(ge=1, le=LIMITS.chart_days)] = 60,
    cohorts: Annotated[int, Query(ge=1, le=LIMITS.chart_cohorts)] = 12,
) -> CohortDays:
    """The last days of the cohorts that drifted most in them, for one chart; of the newest embedding, in one answer."""
    rows = queries.loudest(session, days, cohorts)
    return CohortDays(items=tuple(queries.cohort_day(row) for row in rows))


@router.get("/v1/alarms")
def list_drift_alarms(_: Reader, session: SessionDep, page: PageDep, cohort: CohortName = None) -> Page[DriftAlarm]:
    """Alarms, newest first: cohorts, numbers, action and why, or why not. `cohort` picks those that name it."""
    rows = queries.alarms(session, page, cohort)
    return page_of(rows, page, queries.alarm, lambda row: (row.created, row.id))


@router.get("/v1/rejected")
def list_rejected_reports(_: Reader, session: SessionDep) -> list[RejectedReason]:
    """Reports counted apart, by reason."""
    return queries.rejected(session)


@router.post("/v1/evaluations")
def evaluate_drift(who: Writer, session: SessionDep) -> EvaluationAnswer:
    """Judge now every complete day that changed. Repeating it changes nothing."""
    run = service.evaluate_pending(session, clock_from_environment().now(), drift_settings())
    record(session, who, "drift.evaluate", "drift", {"days": len(run.days), "alarms": list(run.alarms)})
    return EvaluationAnswer(days=tuple(day for _, day in run.days), alarms=run.alarms)


@router.get("/v1/held-settings")
def get_held_drift_settings(_: Reader, session: SessionDep) -> HeldSettings:
    """From which score a frame is hard, observer by observer, and how long drift keeps what."""
    return held.held(session)


@router.get("/v1/settings")
def list_drift_settings(_: Reader) -> SettingList:
    """The process's settings with their units; thresholds of cohorts and device classes go before them."""
    return thresholds.process_settings(drift_settings())


@router.get("/v1/thresholds")
def list_drift_thresholds(
    _: Reader, session: SessionDep, page: PageDep, cohorts: CohortName = None
) -> Page[ThresholdRecord]:
    """Changes of thresholds, newest first; the newest of a name holds. With `cohorts` those of that name."""
    return page_of(queries.thresholds(session, page, cohorts), page, queries.threshold, lambda row: (row.id,))


@router.post("/v1/thresholds")
def change_drift_thresholds(who: Writer, session: SessionDep, change: ThresholdChange) -> ThresholdRecord:
    """Set thresholds of a cohort or a device class from the next verdict on; no values go back to the settings."""
    row = thresholds.change_thresholds(session, change, str(who), clock_from_environment().now())
    record(session, who, "drift.thresholds", f"cohorts:{row.cohorts}", {"values": row.values, "reason": row.reason})
    return queries.threshold(row)


@router.get("/v1/calibrations")
def list_drift_calibrations(_: Reader, session: SessionDep, page: PageDep) -> Page[CalibrationReport]:
    """Weekly A/A reports, newest first: the real rate of false alarms on this fleet, and what the test can see."""
    rows = queries.calibrations(session, page)
    return page_of(rows, page, queries.calibration, lambda row: (row.week, row.embedding_id))


@router.get("/v1/rebases")
def list_drift_rebases(_: Reader, session: SessionDep, page: PageDep) -> Page[RebaseAnswer]:
    """Completed rollouts after which cohorts are compared with new references, newest first."""
    rows = queries.rebases(session, page)
    return page_of(rows, page, queries.rebase, lambda row: (row.created, row.release))


@router.get("/v1/published")
def list_published_days(_: Reader, session: SessionDep, page: PageDep) -> Page[PublishedAnswer]:
    """Published cohort-days, newest day first, each with the epsilon and delta that it was drawn under."""
    rows = published.published(session, page)
    return page_of(rows, page, published.answer, lambda row: (row.day, row.cohort, row.embedding_id))


@router.post(
    "/v1/published",
    responses=declare(published.PublishingOff, published.BudgetSpent, NotFound, MalformedPayload, Unavailable),
)
def publish_cohort_day(who: Writer, session: SessionDep, asked: PublishDay) -> PublishedAnswer:
    """Publish a cohort's device count and histograms with noise; refused when the budget does not allow it.

    A day of a cohort is drawn once: asking again, whatever the epsilon, gives what was drawn and costs nothing.
    """
    now = clock_from_environment().now()
    row, new = published.publish_day(session, asked, str(who), now, publishing_settings(), drift_settings())
    if new:
        cost = {"epsilon": row.epsilon, "delta": row.delta, "reason": row.reason}
        record(session, who, "drift.publish", f"cohort:{row.cohort}:{row.day}", cost)
    return published.answer(row, duplicate=not new)


@router.get("/v1/privacy")
def get_privacy_standing(_: Reader, session: SessionDep) -> PrivacyStanding:
    """The privacy ledger: spent and allowed."""
    return published.standing(session, publishing_settings())


@router.post("/v1/observers", responses=declare(MalformedPayload, ObserverConflict))
def register_drift_observer(
    who: Writer, session: SessionDep, body: Annotated[bytes, Body(media_type="application/octet-stream")]
) -> ObserverAnswer:
    """Register an observer (the bundle's `observer.npz`); reports of its embedding are read from then on."""
    try:
        parameters = ObserverParameters.from_bytes(body)
    except ObserverError as error:
        raise MalformedPayload(f"the body is no observer: {error}") from error
    try:
        new = ingest.register_observer(session, parameters, clock_from_environment().now())
    except ValueError as error:
        raise ObserverConflict(f"{error}; give a changed observer a new embedding id") from error
    record(session, who, "drift.observer", f"observer:{parameters.embedding_id}", {"duplicate": not new})
    return ObserverAnswer(embedding_id=parameters.embedding_id, duplicate=not new)
