"""*Drift*: cohorts by class over days, and one cohort with its tests, sample sizes, direction and clusters."""

from __future__ import annotations

import re

import httpx

from services.dashboard.drift import heat_map
from tests.dashboard.conftest import enter
from tests.dashboard.twin import COHORTS, DAY, Twin


def test_the_heat_map_has_a_row_for_each_cohort_under_its_class_and_says_each_day_in_words(
    visitor: httpx.Client,
) -> None:
    text = enter(visitor, "viewer").get("/console/drift").text
    for cohort in COHORTS:
        assert f'href="/console/drift/{cohort}"' in text
    assert text.index(">npu-2t<") < text.index("/console/drift/npu-2t/office") < text.index(">npu-4t<")
    row = text.split('href="/console/drift/npu-4t/indoor-night"')[1].split("</tr>")[0]
    cells = re.findall(r'<td class="heat ([^"]+)">(.*?)</td>', row)
    assert len(cells) == 14
    assert cells[-1][0] == "h4"
    assert "6.8" in cells[-1][1]
    assert "severe" in cells[-1][1]
    assert "no report" in cells[0][1]


def test_a_class_row_shows_its_loudest_cohort(twin: Twin) -> None:
    made = heat_map([day.cohort for day in twin.days], twin.days, 14)
    night = next(group for group in made.groups if group.name == "npu-4t")
    assert made.days[-1] == DAY
    assert night.loudest[-1].z == max(row.cells[-1].z for row in night.rows)
    assert night.loudest[-1].level == 4


def test_few_devices_are_said_and_are_not_the_same_as_calm(visitor: httpx.Client, twin: Twin) -> None:
    from contracts.wire import DriftState

    few = {"state": DriftState.INSUFFICIENT, "z": None, "d": None, "js": None, "devices": 3}
    twin.days = [row.model_copy(update=few) if row.cohort == "npu-4t/street" else row for row in twin.days]
    row = enter(visitor, "viewer").get("/console/drift").text.split('href="/console/drift/npu-4t/street"')[1]
    cell = re.findall(r'<td class="heat ([^"]+)">(.*?)</td>', row)[13]
    assert cell[0] == "unknown"
    assert "insufficient data" in cell[1]


def test_cohorts_come_in_pages_and_each_page_asks_for_its_own_days(visitor: httpx.Client, twin: Twin) -> None:
    day = twin.days[0]
    twin.days = [day.model_copy(update={"cohort": f"npu-4t/scene-{n:03d}", "day": DAY}) for n in range(120)]
    first = enter(visitor, "viewer").get("/console/drift").text
    assert first.count('href="/console/drift/npu-4t/scene-') == 50
    following = re.search(r'href="(/console/drift\?[^"]+)" rel="next"', first)
    assert following is not None
    second = visitor.get(following.group(1).replace("&amp;", "&")).text
    assert "scene-050" in second
    assert "scene-049" not in second
    assert {asked[:2] for asked in twin.ranges} == {
        ("npu-4t/scene-000", "npu-4t/scene-049"),
        ("npu-4t/scene-050", "npu-4t/scene-099"),
    }


def test_a_cohort_shows_tests_sizes_direction_alarm_and_clusters(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/drift/npu-4t/indoor-night").text
    for words in ("48", "190,000", "6.80", "direction 4", "-0.61", "2 of 3 days", "severe", "3.5 sigma"):
        assert words in text, words
    assert 'href="/console/clusters/c-0"' in text
    assert 'href="/console/clusters?cohort=npu-4t%2Findoor-night"' in text
    calm = visitor.get("/console/drift/npu-4t/office").text
    assert "No alarm names this cohort" in calm
    assert "/console/clusters/c-0" not in calm


def test_an_unknown_cohort_says_so_and_a_service_that_is_down_counts_as_unknown(
    visitor: httpx.Client, twin: Twin
) -> None:
    enter(visitor, "viewer")
    unknown = visitor.get("/console/drift/npu-9t/nowhere")
    assert unknown.status_code == 404
    assert "No day of this cohort" in unknown.text
    assert visitor.get("/console/drift/..%2F../x").status_code == 404
    twin.down.add("/curation")
    text = visitor.get("/console/drift/npu-4t/indoor-night").text
    assert "the database does not answer" in text
    assert "6.80" in text
    twin.down.add("/drift")
    assert "the database does not answer" in visitor.get("/console/drift").text
    assert visitor.get("/console/drift/npu-4t/indoor-night").status_code == 503


def test_no_cohort_yet_says_why_and_what_to_do(visitor: httpx.Client, twin: Twin) -> None:
    twin.days = []
    assert "No cohort has a whole day yet" in enter(visitor, "viewer").get("/console/drift").text
