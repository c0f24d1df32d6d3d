"""From an event in the platform to the page: real changes, and when headless Chromium shows them.

Each event begins a random part of a second after the one before, so that it meets the page anywhere in its beat. The
clock starts before the change is asked for and stops when the page's text says it; it is read in the browser every
20 ms, so what is printed is too long by up to that, never too short.

- a rollout is paused and resumed through the API, watched on its own page
- a device reports over HTTP that it confirmed the bundle, watched in the stage's count on the rollout's page
- an alarm of drift is committed as the judging task writes it, watched on the overview
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from sqlalchemy import delete, select

from benchmarks.watching.processes import Watched
from benchmarks.watching.scale import EMBEDDINGS, Scale
from benchmarks.watching.visits import NAME, PASSWORD
from contracts.device import DeviceTags
from contracts.state import bucket
from contracts.wire.feedback import FeedbackBatch, InstallEvent, InstallStage
from edgeloop.figures import Figure, at_least, at_most
from services.drift.models import Alarm
from services.kit.auth import issue_token
from services.kit.database import transaction
from services.releases.models import Device, Exposure, RolloutRow

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

EACH, LIMIT_S, WAIT_MS, POLL_MS = 8, 2.0, 15_000, 20
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)
SAYS = "([where, text]) => [...document.querySelectorAll(where)].some((one) => one.innerText.includes(text))"

Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Timed:
    """One event: its kind and the seconds until the page showed it, None where it never did."""

    kind: str
    seconds: float | None


def measure(watched: Watched, scale: Scale, tell: Tell) -> list[Timed]:
    """All events; empty where no Chromium is installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return []
    chance, found = random.Random(scale.seed), []  # when to begin
    with _tab(chromium, watched) as tab:
        for kind, events in (("pause", _pauses), ("report", _reports), ("alarm", _alarms)):
            for number, (act, where, text) in enumerate(events(watched, scale, tab)):
                tell((number + EACH * len(found) / EACH) / (3 * EACH), kind)
                time.sleep(chance.random())
                found.append(Timed(kind, _timed(tab, act, where, text)))
    return found


def figures(found: Sequence[Timed]) -> list[Figure]:
    """How long it took, by kind and in all."""
    if not found:
        return [Figure("event.browser", "no Chromium", "", "Chromium is installed", False)]
    times = sorted(one.seconds if one.seconds is not None else WAIT_MS / 1_000 for one in found)
    lost = sum(one.seconds is None for one in found)
    made = [
        at_least("event.count", len(found), "events", 20),
        at_most("event.lost", lost, "never shown", 0),
        at_most("event.worst", round(times[-1], 2), "s", LIMIT_S),
        at_most("event.p95", round(times[min(len(times) - 1, round(0.95 * len(times)))], 2), "s", LIMIT_S),
        Figure("event.median", round(times[len(times) // 2], 2), "s", "printed", True),
    ]
    for kind in dict.fromkeys(one.kind for one in found):
        worst = max(one.seconds or WAIT_MS / 1_000 for one in found if one.kind == kind)
        made.append(at_most(f"event.{kind}.worst", round(worst, 2), "s", LIMIT_S))
    return made


Event = tuple[Callable[[], None], str, str]
"""What to do, which elements to look at, and what they must say."""


def _pauses(watched: Watched, scale: Scale, tab: Tab) -> Iterator[Event]:
    """Pause and resume in turn."""
    rollout_id = _running(scale)
    _open(tab, f"{watched.console}/console/rollouts/{rollout_id}")
    with transaction() as session:
        token = issue_token(session, "operator", "bench")
    for number in range(EACH):
        verb, word = ("pause", "paused") if number % 2 == 0 else ("resume", "running")
        yield (lambda verb=verb: _act(watched, token, rollout_id, verb)), "h1 .badge", word  # type: ignore[misc]  # bound now


def _reports(watched: Watched, scale: Scale, tab: Tab) -> Iterator[Event]:
    """Devices of the rollout's stage that had not confirmed say that they did."""
    rollout_id = _running(scale)
    with transaction() as session:
        row = session.get_one(RolloutRow, rollout_id)
        wanted = select(Device, Exposure.bucket).join(Exposure, Exposure.device_id == Device.id)
        waiting = (Exposure.rollout_id == rollout_id, ~Exposure.confirmed, ~Exposure.failed, ~Exposure.moved)
        chosen = session.execute(wanted.where(*waiting, Exposure.bucket < 500).limit(EACH)).all()
        tokens = [issue_token(session, "device", device.id) for device, _ in chosen]
        digest, salt = row.digest, row.salt
    _open(tab, f"{watched.console}/console/rollouts/{rollout_id}")
    for (device, place), token in zip(chosen, tokens, strict=True):
        assert place == bucket(salt, device.id)
        text = tab.locator(".rail li").first.inner_text()
        before = int(text.split(" of ")[0].split()[-1])
        batch = FeedbackBatch(
            tags=DeviceTags.model_validate(device.tags),
            agent_version=device.agent_version,
            running_digest=digest,
            slot_stage=InstallStage.CONFIRMED,
            state_epoch=device.state_epoch,
            installs=(
                InstallEvent(
                    event_id=f"bench-{device.id}",
                    digest=digest,
                    stage=InstallStage.CONFIRMED,
                    sequence=device.sequence + 1,
                ),
            ),
        )
        yield (lambda batch=batch, token=token: _report(watched, token, batch)), ".rail li", f"{before + 1} of "  # type: ignore[misc]  # bound now


def _alarms(watched: Watched, scale: Scale, tab: Tab) -> Iterator[Event]:
    """Alarms with names of their own."""
    _open(tab, watched.console)
    with transaction() as session:
        session.execute(delete(Alarm).where(Alarm.id.startswith("bench-")))
    for number in range(EACH):
        reason = f"seen by the bench, {number}"
        yield (lambda number=number, reason=reason: _alarm(scale, number, reason)), ".alarms li", reason  # type: ignore[misc]  # bound now


def _act(watched: Watched, token: str, rollout_id: str, verb: str) -> None:
    url = f"{watched.api}/releases/v1/rollouts/{rollout_id}/{verb}"
    headers = {"Authorization": f"Bearer {token}"}
    httpx.post(url, json={"reason": "bench of the console"}, headers=headers, trust_env=False).raise_for_status()


def _report(watched: Watched, token: str, batch: FeedbackBatch) -> None:
    url, headers = f"{watched.api}/releases/v1/feedback", {"Authorization": f"Bearer {token}"}
    httpx.post(url, json=batch.model_dump(mode="json"), headers=headers, trust_env=False).raise_for_status()


def _alarm(scale: Scale, number: int, reason: str) -> None:
    with transaction() as session:
        session.add(
            Alarm(
                id=f"bench-{number}",
                embedding_id=EMBEDDINGS[1],
                cohorts=[scale.cohorts[number]],
                days=[scale.today],
                z=6.0,
                d=0.8,
                state="severe",
                action="pending",
                reason=reason,
                created=time.time(),
            )
        )


def _running(scale: Scale) -> str:
    with transaction() as session:
        query = select(RolloutRow.id).where(RolloutRow.state == "running").order_by(RolloutRow.created.desc())
        return session.scalars(query.limit(1)).one()


def _timed(tab: Tab, act: Callable[[], None], where: str, text: str) -> float | None:
    from playwright.sync_api import TimeoutError as NeverShown

    begun = time.perf_counter()
    act()
    try:
        tab.wait_for_function(SAYS, arg=[where, text], polling=POLL_MS, timeout=WAIT_MS)
    except NeverShown:
        return None
    return time.perf_counter() - begun


def _open(tab: Tab, address: str) -> None:
    tab.goto(address)
    tab.wait_for_function("document.getElementById('live') && document.getElementById('live').textContent === 'live'")


@contextmanager
def _tab(chromium: str, watched: Watched) -> Iterator[Tab]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        tab = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB").new_page()
        tab.goto(watched.console)
        tab.get_by_label("Name").fill(NAME)
        tab.get_by_label("Password").fill(PASSWORD)
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url(f"{watched.console}/")
        yield tab
        browser.close()
