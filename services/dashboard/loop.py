"""The loop as a picture: six stations with one line of live state each.

A station is `good`, `busy` (something moves), `alert` (look here), `idle` or `unknown` (its service did not answer;
never shown as good).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from contracts.wire import BuildState, CoverageState, RolloutState
from services.dashboard.languages import _, gettext, marked
from services.dashboard.platform import Missing
from services.dashboard.snapshot import Snapshot


class Standing(StrEnum):
    """How a station stands; each has its own mark, word and colour."""

    GOOD = "good"
    BUSY = "busy"
    ALERT = "alert"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Station:
    """One step of the loop."""

    title: str
    verb: str
    standing: Standing
    headline: str
    detail: str


def stations(snapshot: Snapshot) -> tuple[Station, ...]:
    """The six stations in the loop's order."""
    made = (
        _fleet(snapshot),
        _drift(snapshot),
        _examples(snapshot),
        _build(snapshot),
        _release(snapshot),
        _verdict(snapshot),
    )
    return tuple(replace(one, title=gettext(one.title), verb=gettext(one.verb)) for one in made)


def _guarded(
    title: str, verb: str
) -> Callable[[Callable[[Snapshot], Station | Missing]], Callable[[Snapshot], Station]]:
    """A station whose source is missing says so."""

    def wrap(make: Callable[[Snapshot], Station | Missing]) -> Callable[[Snapshot], Station]:
        def station(snapshot: Snapshot) -> Station:
            made = make(snapshot)
            if isinstance(made, Missing):
                return Station(title, verb, Standing.UNKNOWN, _("no answer"), _("the service does not answer"))
            return made

        return station

    return wrap


@_guarded(marked("Fleet"), marked("runs"))
def _fleet(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.standing, Missing):
        return snapshot.standing
    found = snapshot.standing.value
    devices = sum(one.devices for one in found.running)
    more = "" if found.complete else "+"
    if not devices:
        return Station("Fleet", "runs", Standing.IDLE, _("no device yet"), _("enrol one"))
    releases = len({one.digest for one in found.running})
    many, known = f"{releases}{more}", f"{devices:,}{more}"
    versions = _("on one release") if releases == 1 else _("on %(count)s releases", count=many)
    counted = _("%(count)s devices", count=known)
    return Station("Fleet", "runs", Standing.GOOD, counted, versions)


@_guarded(marked("Drift"), marked("notices"))
def _drift(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.drift, Missing):
        return snapshot.drift
    found = snapshot.drift.value
    if not found.cohorts:
        return Station("Drift", "notices", Standing.IDLE, _("no report yet"), _("one report a device and day"))
    if found.severe or found.alarmed:
        drifting = _("%(count)s of %(all)s drift", count=found.severe or found.alarmed, all=found.cohorts)
        return Station("Drift", "notices", Standing.ALERT, drifting, _("look at the chart"))
    watched = _("%(count)s cohorts watched", count=found.cohorts)
    return Station("Drift", "notices", Standing.GOOD, _("nothing drifts"), watched)


@_guarded(marked("Hard examples"), marked("collects"))
def _examples(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.clusters, Missing):
        return snapshot.clusters
    clusters = snapshot.clusters.value.items
    if not clusters:
        return Station("Hard examples", "collects", Standing.IDLE, _("no cluster"), _("nothing hard was sent"))
    covered = sum(1 for item in clusters if item.coverage and item.coverage.state is CoverageState.COVERED)
    standing = Standing.GOOD if covered == len(clusters) else Standing.ALERT
    counted = _("1 cluster") if len(clusters) == 1 else _("%(count)s clusters", count=len(clusters))
    return Station("Hard examples", "collects", standing, counted, _("%(count)s covered by training", count=covered))


@_guarded(marked("Build"), marked("learns and gates"))
def _build(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.builds, Missing):
        return snapshot.builds
    builds = snapshot.builds.value.items
    if not builds:
        return Station("Build", "learns and gates", Standing.IDLE, _("no build yet"), _("retraining makes one"))
    newest = builds[0]
    standing = {
        BuildState.PASSED: Standing.GOOD,
        BuildState.BLOCKED: Standing.ALERT,
        BuildState.REFUSED: Standing.ALERT,
        BuildState.FAILED: Standing.ALERT,
    }.get(newest.state, Standing.BUSY)
    return Station("Build", "learns and gates", standing, gettext(newest.state.value), newest.release_version)


@_guarded(marked("Release"), marked("ships in stages"))
def _release(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.rollouts, Missing):
        return snapshot.rollouts
    rollouts = snapshot.rollouts.value.items
    if not rollouts:
        words = _("a passed build starts one")
        return Station("Release", "ships in stages", Standing.IDLE, _("no rollout yet"), words)
    newest = next((item for item in rollouts if item.state in (RolloutState.RUNNING, RolloutState.PAUSED)), rollouts[0])
    stage = newest.stages[min(newest.stage, len(newest.stages) - 1)] if newest.stages else None
    exposure = f"{stage.basis_points / 100:g} %" if stage else ""
    if newest.state is RolloutState.RUNNING:
        words = _("running at %(share)s", share=exposure)
        return Station("Release", "ships in stages", Standing.BUSY, words, newest.release_version)
    if newest.state is RolloutState.PAUSED:
        words = _("paused at %(share)s", share=exposure)
        return Station("Release", "ships in stages", Standing.ALERT, words, newest.release_version)
    good = newest.state is RolloutState.COMPLETED
    words = gettext(newest.state.value.replace("_", " "))
    return Station(
        "Release", "ships in stages", Standing.GOOD if good else Standing.ALERT, words, newest.release_version
    )


@_guarded(marked("Verdict"), marked("decides by itself"))
def _verdict(snapshot: Snapshot) -> Station | Missing:
    if isinstance(snapshot.rollouts, Missing):
        return snapshot.rollouts
    rollouts = snapshot.rollouts.value.items
    if not rollouts:
        return Station("Verdict", "decides by itself", Standing.IDLE, _("nothing to decide"), "")
    people = sum(rollout.human_actions for rollout in rollouts)
    by_hand = _("no person needed") if people == 0 else _("%(count)s actions by people", count=people)
    newest = rollouts[0]
    words = gettext(newest.verdict.replace("_", " ")) if newest.verdict else _("not yet")
    standing = Standing.BUSY if newest.finished is None else Standing.GOOD
    if newest.state in (RolloutState.ROLLED_BACK, RolloutState.KILLED, RolloutState.PAUSED):
        standing = Standing.ALERT
    return Station("Verdict", "decides by itself", standing, words, by_hand)
