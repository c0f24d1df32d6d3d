"""Every page of the console with addresses to visit, found from the application's own routes.

A route with parameters needs an entry in `given`; one that has none is told as not visited, so a page that is added
later is measured or missed by name, never forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote

from fastapi import FastAPI

from benchmarks.watching import curation_rows, flow_engine, release_rows
from benchmarks.watching.fleet_rows import Fleet
from benchmarks.watching.people_rows import RARE, api_token
from benchmarks.watching.scale import CLASSES, Scale
from services.app import build_app
from services.dashboard.assets import OWN, url_of
from services.kit.discovery import DASHBOARD
from services.kit.pages import encode_cursor
from services.kit.routes import operations

RULES = (
    'region == "eu-west" and network != "cellular"',
    f'model == "{CLASSES[0]}" and version >= "0.0.9"',
    'region == "nowhere"',
)
"""Of many devices, of one class, of nobody."""
OUTSIDE = re.compile(r"^/(healthz|readyz|metrics)")
"""Routes that every process has and no person looks at."""


@dataclass(frozen=True)
class Page:
    """A kind of view: its route, what is special about it, and addresses that are visited in turn."""

    name: str
    route: str
    addresses: tuple[str, ...]


def routes(app: FastAPI | None = None) -> tuple[str, ...]:
    """Paths of every page, fragment and picture of the console."""
    found = operations(app or build_app((DASHBOARD,)))
    return tuple(one.path for one in found if one.method == "GET" and not OUTSIDE.match(one.path))


def pages(scale: Scale, known: tuple[str, ...]) -> tuple[Page, ...]:
    """What is visited: of every route its addresses, in the order of the routes."""
    chosen = given(scale)
    made = []
    for route in known:
        special = chosen.get(route)
        if special is not None:
            made += [Page(f"{_slug(route)}{_suffix(word)}", route, tuple(of)) for word, of in special.items()]
        elif "{" not in route:
            made.append(Page(_slug(route), route, (route,)))
    return tuple(made)


def unvisited(known: tuple[str, ...], visited: tuple[Page, ...]) -> tuple[str, ...]:
    """Routes that no page is visited of."""
    return tuple(sorted(set(known) - {page.route for page in visited}))


def given(scale: Scale) -> Mapping[str, Mapping[str, list[str]]]:
    """Route -> what is special -> addresses. The empty word is the plain page."""
    return {
        **_releases(scale), **_devices(scale), **_drift(scale), **_curation(scale), **_builds(scale),
        **_audit(scale), **_accounts(scale), **_others(scale),
    }  # fmt: skip


def _releases(scale: Scale) -> dict[str, dict[str, list[str]]]:
    newest = scale.releases - 1
    active = [scale.rollout(newest - age) for age in range(release_rows.ACTIVE)]
    done = [scale.rollout(newest - age) for age in range(20, 900, 60)]
    at, last = [_older(scale, release) for release in (scale.releases // 2, 30)]
    home = "/console/releases"
    return {
        home: {"": [home], "deep": [f"{home}?cursor={at}"], "last": [f"{home}?cursor={last}"]},
        "/console/rollouts/{rollout_id}": {
            "active": [f"/console/rollouts/{one}" for one in active],
            "ended": [f"/console/rollouts/{one}" for one in done],
        },
        "/fragments/rollouts/{rollout_id}": {"": [f"/fragments/rollouts/{one}" for one in active]},
        "/console/rollouts/{rollout_id}/{verb}": {
            "": [f"/console/rollouts/{one}/{verb}" for one in active for verb in ("pause", "rollback")]
        },
        "/fragments/{name}": {
            name: [f"/fragments/{name}"]
            for name in ("loop", "rollouts", "alerts", "fleet", "drift", "clusters", "builds")
        },
    }


def _older(scale: Scale, release: int) -> str:
    return encode_cursor(float(f"{scale.created(release):.1f}"), scale.rollout(release))


def _devices(scale: Scale) -> dict[str, dict[str, list[str]]]:
    fleet, home = Fleet(scale), "/console/devices"
    deep, last = (encode_cursor(fleet.ids[place]) for place in (scale.devices // 2, scale.devices - 20))
    reporting = [fleet.ids[place] for place in range(0, scale.devices, max(1, scale.devices // 20))]
    rare = scale.digest(int(min(fleet.release[fleet.release >= 0])))
    common = scale.digest(scale.releases - 4)
    filters = {
        "by_beginning": [f"{home}?q={fleet.ids[place][:5]}" for place in range(7, scale.devices, scale.devices // 5)],
        "by_nothing": [f"{home}?q=zz", f"{home}?running={'0' * 12}", f"{home}?device_class=none"],
        "by_class": [f"{home}?device_class={name}" for name in CLASSES],
        "by_common_bundle": [f"{home}?running={common}", f"{home}?running={common[:6]}"],
        "by_rare_bundle": [f"{home}?running={rare}"],
        "by_class_and_bundle": [f"{home}?device_class={CLASSES[0]}&running={common[:8]}"],
        "by_rule": [f"{home}?rule={quote(rule)}" for rule in RULES],
        "by_class_deep": [f"{home}?device_class={CLASSES[3]}&cursor={deep}"],
    }
    return {
        home: {"": [home], "deep": [f"{home}?cursor={deep}"], "last": [f"{home}?cursor={last}"], **filters},
        home + "/{device_id}": {"": [f"{home}/{one}" for one in reporting]},
    }


def _drift(scale: Scale) -> dict[str, dict[str, list[str]]]:
    home, names = "/console/drift", sorted(scale.cohorts)
    deep, last = (encode_cursor(names[place]) for place in (len(names) // 2, -20))
    settings, changes = "/console/settings", encode_cursor(60)
    return {
        home: {"": [home], "deep": [f"{home}?cursor={deep}"], "last": [f"{home}?cursor={last}"]},
        home + "/{device_class}/{scene}": {"": [f"{home}/{one}" for one in names[::20]]},
        settings: {"": [settings], "last": [f"{settings}?cursor={changes}"]},
        settings + "/change": {
            "": [f"{settings}/change?name=z_threshold&cohorts={name}/*&value=3.5" for name in CLASSES],
        },
    }


def _curation(scale: Scale) -> dict[str, dict[str, list[str]]]:
    home = "/console/clusters"
    deep = encode_cursor(scale.clusters - 30)
    return {
        home: {"": [home], "last": [f"{home}?cursor={deep}"], "by_cohort": [f"{home}?cohort={scale.cohorts[9]}"]},
        home + "/{cluster_id}": {
            "": [f"{home}/{curation_rows.cluster_id(label)}" for label in range(0, scale.clusters, 40)]
        },
    }


def _builds(scale: Scale) -> dict[str, dict[str, list[str]]]:
    ids = [scale.build(scale.releases - 1 - age) for age in range(0, 40, 4)]
    first = scale.releases - scale.builds + 20
    deep = encode_cursor(float(f"{scale.created(first) - 7_200:.1f}"), scale.build(first))
    bundles, models = "/console/bundles", "/console/models"
    return {
        "/console/builds/{build_id}": {"": [f"/console/builds/{one}" for one in ids]},
        bundles: {"": [bundles], "last": [f"{bundles}?cursor={deep}"]},
        models: {"": [models], "last": [f"{models}?cursor={deep}"]},
        models + "/{build_id}": {"": [f"{models}/{one}" for one in ids]},
        "/fragments/search-figure/{build_id}": {"": [f"/fragments/search-figure/{one}" for one in ids]},
        bundles + "/{build_id}": {"": [f"{bundles}/{one}?profile={number}" for one in ids[:5] for number in (0, 3)]},
        bundles + "/compare": {"": [f"{bundles}/compare?build={one}&build={other}" for one, other in pairwise(ids)]},
    }


def _audit(scale: Scale) -> dict[str, dict[str, list[str]]]:
    home = "/console/audit"
    deep, last = encode_cursor(scale.audit // 2), encode_cursor(40)
    return {
        home: {
            "": [home],
            "deep": [f"{home}?cursor={deep}"],
            "last": [f"{home}?cursor={last}"],
            "by_actor": [f"{home}?actor=operator:person-{number:03d}" for number in range(0, 60, 12)],
            "by_nobody": [f"{home}?actor=operator:nobody"],
            "by_rare_action": [f"{home}?action={RARE}", f"{home}?action={RARE[:4]}"],
            "by_common_action": [f"{home}?action=rollout"],
            "by_subject": [
                f"{home}?subject=rollout:{scale.rollout(number)}" for number in range(0, scale.releases, 999)
            ],
            "by_actor_and_rare_action": [f"{home}?actor=operator:person-007&action={RARE}"],
        }
    }


def _accounts(scale: Scale) -> dict[str, dict[str, list[str]]]:
    home, chosen = "/console/accounts", range(0, scale.accounts, max(1, scale.accounts // 10))
    people = {number: f"{home}/person-{number:03d}" for number in chosen}
    last = encode_cursor(f"person-{max(0, scale.accounts - 20):03d}")
    return {
        home: {"": [home], "last": [f"{home}?cursor={last}"]},
        home + "/{name}": {"": list(people.values())},
        home + "/{name}/{verb}": {"": [f"{one}/{verb}" for one in people.values() for verb in ("role", "disable")]},
        home + "/{name}/tokens/{token_id}": {
            "": [f"{one}/tokens/{api_token(scale, number)}" for number, one in people.items()]
        },
    }


def _others(scale: Scale) -> dict[str, dict[str, list[str]]]:
    flows, deep = "/console/flows", encode_cursor(flow_engine.RUNS - 60)
    runs = [flow_engine.run_id(number) for number in range(0, 40, 4)]
    failed = [flow_engine.run_id(number) for number in range(1, 41, 4)]
    return {
        flows: {"": [flows], "last": [f"{flows}?cursor={deep}"]},
        flows + "/{run_id}": {"": [f"{flows}/{one}" for one in runs]},
        flows + "/{run_id}/retry": {"": [f"{flows}/{one}/retry" for one in failed]},
        "/static/{tag}/{name}": {"": [url_of(name) for name in (*OWN, "plotly.min.js")]},
    }


def _slug(route: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", route.lower().replace("console/", "")).strip("_")
    return words or "now"


def _suffix(word: str) -> str:
    return f".{word}" if word else ""


def walk(page: Page, count: int) -> Iterator[str]:
    """`count` addresses of a page, in turn."""
    for number in range(count):
        yield page.addresses[number % len(page.addresses)]
