"""Published days: off until somebody says what they may cost, drawn once, refused when the budget is spent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from contracts.clock import CLOCK_FILE_VARIABLE, SECONDS_PER_DAY, set_pace
from services.drift import ingest, published, service
from services.drift.domain.privacy_ledger import with_release, worst_window
from services.drift.domain.privacy_loss import Budget, composed, rho_of
from services.drift.limits import DriftSettings, PublishingSettings, publishing_settings
from services.drift.models import PublishedRow
from services.drift.schemas import PublishDay
from services.kit.database import transaction
from services.kit.problems import Problem, Unavailable
from services.kit.settings import Settings
from tests.drift.reports import fleet_day, observer
from tests.support.bounded import within
from tests.support.http import ApiClient
from tests.support.platform import Tokens

FIRST, DAYS, DEVICES = 20_000, 4, 400
COHORT, OTHER, SMALL = "npu-4t/mobile", "npu-2t/office", "rare/one"
TOTAL = 2.0


@pytest.fixture(scope="module", autouse=True)
def lived(platform: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Days of a fleet of two cohorts and a tiny one, all complete."""
    clock = tmp_path_factory.mktemp("clock") / "clock.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_FILE_VARIABLE, str(clock))
        set_pace(clock, 1e-6, start=(FIRST + DAYS + 0.5) * SECONDS_PER_DAY)
        with transaction() as session:
            session.execute(text("TRUNCATE drift.device_days, drift.cohort_days, drift.observers"))
            ingest.register_observer(session, observer("e1"), 0.0)
            for day in range(FIRST, FIRST + DAYS):
                now = (day + 0.5) * SECONDS_PER_DAY
                reports = [*fleet_day(COHORT, day, DEVICES), *fleet_day(OTHER, day, 90), *fleet_day(SMALL, day, 2)]
                ingest.take_many(session, reports, now)
        service.fold_waiting()
        yield
    with transaction() as session:
        session.execute(text("TRUNCATE drift.device_days, drift.cohort_days, drift.observers, drift.published_days"))


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Publishing is on, with epsilon 2 for any three days; nothing has been spent."""
    monkeypatch.setenv("EDGELOOP_PUBLISHING_EPSILON", str(TOTAL))
    monkeypatch.setenv("EDGELOOP_PUBLISHING_WINDOW_DAYS", "3")
    publishing_settings.cache_clear()
    with transaction() as session:
        session.execute(text("TRUNCATE drift.published_days"))
    yield
    publishing_settings.cache_clear()


def body(day: int = FIRST, cohort: str = COHORT, epsilon: float = 1.0, **more: object) -> dict[str, Any]:
    return {"cohort": cohort, "day": day, "epsilon": epsilon, "delta": 1e-8, "reason": "a talk", **more}


def post(client: ApiClient, tokens: Tokens, **how: Any) -> httpx.Response:
    return client.post("/drift/v1/published", token=tokens.service, json=body(**how))


def standing(client: ApiClient, tokens: Tokens) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/drift/v1/privacy", token=tokens.operator).json()
    return found


def test_nothing_is_published_until_somebody_says_what_it_may_cost(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGELOOP_PUBLISHING_EPSILON")
    publishing_settings.cache_clear()
    answer = post(client, tokens)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/publishing-off")
    assert "EDGELOOP_PUBLISHING_EPSILON" in answer.json()["detail"]
    assert standing(client, tokens)["epsilon"] == 0.0


def test_a_published_day_names_epsilon_and_delta_and_is_near_the_truth(client: ApiClient, tokens: Tokens) -> None:
    found = post(client, tokens).json()
    assert (found["epsilon"], found["delta"], found["noise"]) == (1.0, 1e-8, "exact")
    assert (found["suppressed"], found["duplicate"]) == (False, False)
    assert abs(found["devices"] - DEVICES) < 6 * found["deviation"]
    assert [len(row) for row in found["votes"]] == [16] * 8
    assert 10.0 < found["deviation"] < 25.0


def test_a_day_is_drawn_once_and_asking_again_costs_nothing(client: ApiClient, tokens: Tokens) -> None:
    first = post(client, tokens).json()
    spent = standing(client, tokens)
    again = post(client, tokens, epsilon=0.5).json()
    assert again == {**first, "duplicate": True}
    assert standing(client, tokens) == spent
    listed = client.get("/drift/v1/published", token=tokens.operator).json()["items"]
    assert listed == [{**first, "duplicate": True}]


def test_the_ledger_adds_up_days_and_takes_the_largest_of_a_days_cohorts(client: ApiClient, tokens: Tokens) -> None:
    post(client, tokens)
    assert standing(client, tokens)["spent_epsilon"] == pytest.approx(1.0, abs=1e-6)
    post(client, tokens, cohort=OTHER)
    assert standing(client, tokens)["spent_epsilon"] == pytest.approx(1.0, abs=1e-6)
    post(client, tokens, day=FIRST + 1)
    found = standing(client, tokens)
    assert found["spent_epsilon"] == pytest.approx(composed(Budget(1.0, 1e-8), 2).epsilon, abs=1e-6)
    assert (found["worst_first_day"], found["releases"], found["window_days"]) == (FIRST, 3, 3)


def test_a_release_that_cannot_be_paid_for_is_refused_and_not_drawn(client: ApiClient, tokens: Tokens) -> None:
    assert post(client, tokens, epsilon=TOTAL).status_code == 200
    before = standing(client, tokens)
    answer = post(client, tokens, day=FIRST + 2, epsilon=0.1)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/privacy-budget-spent")
    assert f"days {FIRST} to {FIRST + 2}" in answer.json()["detail"]
    assert "smaller epsilon" in answer.json()["detail"]
    assert standing(client, tokens) == before
    assert post(client, tokens, cohort=OTHER, epsilon=TOTAL).status_code == 200, "devices of another cohort"
    assert post(client, tokens, day=FIRST + 3, epsilon=TOTAL).status_code == 200, "no window holds both days"


def test_a_cohort_that_is_too_small_is_suppressed_and_paid_for(client: ApiClient, tokens: Tokens) -> None:
    found = post(client, tokens, cohort=SMALL).json()
    assert (found["suppressed"], found["devices"], found["votes"]) == (True, None, None)
    assert standing(client, tokens)["spent_epsilon"] > 0
    assert post(client, tokens, cohort=SMALL).json()["duplicate"] is True


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"day": FIRST + DAYS}, 409),
        ({"cohort": "npu-9t/none"}, 404),
        ({"cohort": "mobile; DROP TABLE"}, 422),
        ({"epsilon": 0.0}, 422),
        ({"epsilon": float(30)}, 422),
        ({"delta": 0.5}, 422),
        ({"unknown": 1}, 422),
        ({"embedding_id": "e9"}, 404),
    ],
    ids=["a day that is not over", "an unknown cohort", "no cohort", "nothing", "too much", "delta", "field", "other"],
)
def test_what_cannot_be_published_is_refused_and_costs_nothing(
    client: ApiClient, tokens: Tokens, how: dict[str, Any], status: int
) -> None:
    answer = post(client, tokens, **how)
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert standing(client, tokens)["releases"] == 0


def test_readers_and_devices_may_not_publish(client: ApiClient, tokens: Tokens) -> None:
    reader = tokens.make("operator", "reader", ["drift:read"])
    for token in (reader, tokens.device("d1")):
        assert client.post("/drift/v1/published", token=token, json=body()).status_code == 403
    assert client.get("/drift/v1/privacy", token=tokens.device("d1")).status_code == 403


def test_two_requests_at_once_cannot_spend_the_same_rest() -> None:
    chosen = PublishingSettings()

    def ask(day: int) -> str:
        asked = PublishDay(**body(day=day, epsilon=1.9))
        now = (FIRST + DAYS + 0.5) * SECONDS_PER_DAY
        for _ in range(200):
            try:
                with transaction() as session:
                    published.publish_day(session, asked, "test", now, chosen, DriftSettings())
                return "drawn"
            except Unavailable:
                continue
            except Problem as problem:
                return problem.slug
        return "never"

    answers = within(30, *[lambda day=FIRST + each: ask(day) for each in range(3)])  # type: ignore[misc]
    assert sorted(answers) == ["drawn", "privacy-budget-spent", "privacy-budget-spent"]
    with transaction() as session:
        assert session.scalar(select(func.count()).select_from(PublishedRow)) == 1


def test_a_library_that_is_not_there_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(published.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"edgeloop\[privacy\]"):
        published._noise(PublishingSettings(noise="opendp"))


ALLOWED = rho_of(Budget(TOTAL, 1e-8))


@given(
    st.lists(st.tuples(st.integers(0, 25), st.floats(0.01 * ALLOWED, 1.2 * ALLOWED)), max_size=25),
    st.integers(1, 9),
)
def test_no_window_of_days_ever_costs_more_than_was_promised(asked: list[tuple[int, float]], length: int) -> None:
    allowed, spent = ALLOWED, dict[int, float]()
    for day, rho in asked:
        after = with_release(spent, day, rho)
        if worst_window(after, length, day).rho <= allowed:
            spent = after
    for first in range(-length, 30):
        assert sum(spent.get(day, 0.0) for day in range(first, first + length)) <= allowed * (1 + 1e-12)
    assert worst_window(spent, length).rho <= allowed


def test_the_worst_window_is_found_and_an_empty_ledger_has_spent_nothing() -> None:
    spent = {10: 1.0, 12: 2.0, 15: 4.0}
    assert worst_window(spent, 3).rho == 4.0
    assert worst_window(spent, 4).rho == 6.0
    assert worst_window(spent, 3, day=11).rho == 3.0
    assert worst_window({}, 30).rho == 0.0
    assert with_release(spent, 12, 0.5) == spent, "a cheaper release of a day adds nothing to the dearest"
    assert with_release(spent, 12, 3.0)[12] == 3.0
    with pytest.raises(ValueError, match="at least one day"):
        worst_window(spent, 0)
