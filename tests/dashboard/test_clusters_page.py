"""*Hard examples*: the clusters in a plane, their coverage with its interval, members, and what stands in for them."""

from __future__ import annotations

import re

import httpx
import numpy as np

from services.dashboard.projection import plane
from tests.dashboard.conftest import enter
from tests.dashboard.twin import EVIL, Twin


def test_the_plane_keeps_the_two_widest_directions_and_their_share() -> None:
    chance = np.random.default_rng(7)
    flat = np.zeros((60, 32))
    flat[:, 5], flat[:, 20] = chance.normal(0, 4, 60), chance.normal(0, 1, 60)
    found = plane(flat.tolist())
    assert found.share > 0.999
    shown = np.asarray(found.points)
    for first, second in ((0, 1), (3, 40), (7, 59)):
        real = np.linalg.norm(flat[first] - flat[second])
        assert np.isclose(np.linalg.norm(shown[first] - shown[second]) / found.scale, real, rtol=1e-6)
    assert plane(flat.tolist()) == found


def test_a_plane_of_nothing_of_one_point_and_of_equal_points_is_drawn_too() -> None:
    assert plane([]).points == ()
    assert len(plane([(1.0,) * 32]).points) == 1
    same = plane([(1.0,) * 32] * 5)
    assert np.isfinite(np.asarray(same.points)).all()
    assert same.share == 1.0


def test_the_page_draws_every_cluster_with_a_shape_for_its_state_and_lists_it(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/clusters").text
    picture = text.split('<svg class="plane"')[1].split("</svg>")[0]
    assert picture.count("<title>") == 3
    assert 'class="shape good"' in picture
    assert 'class="shape busy"' in picture
    assert 'class="shape alert"' in picture
    for words in ("81 %", "76", "85", "m2", "42 %", "covered", "partial", "uncovered", "97 %"):
        assert words in text, words
    assert 'href="/console/clusters/c-1"' in text


def test_clusters_of_one_cohort_are_listed_and_the_filter_stays_on_the_next_page(
    visitor: httpx.Client, twin: Twin
) -> None:
    one = twin.clusters[0]
    twin.clusters = [
        one.model_copy(update={"id": f"c-{n}", "label": n, "cohorts": {"npu-4t/street" if n % 2 else "x/y": 9}})
        for n in range(130)
    ]
    enter(visitor, "viewer")
    text = visitor.get("/console/clusters", params={"cohort": "npu-4t/street"}).text
    assert len(re.findall(r'<a href="/console/clusters/c-\d+"', text)) == 50
    assert text.split('<svg class="plane"')[1].split("</svg>")[0].count("<title>") == 65
    following = re.search(r'href="(/console/clusters\?[^"]+)" rel="next"', text)
    assert following is not None
    assert "cohort=npu-4t%2Fstreet" in following.group(1)
    assert 'href="/console/clusters/c-129"' in visitor.get(following.group(1).replace("&amp;", "&")).text
    assert "No cluster" in visitor.get("/console/clusters", params={"cohort": "nobody/nowhere"}).text


def test_one_cluster_shows_members_coverage_and_the_clips_that_stand_in(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/clusters/c-1").text
    for words in ("61", "58 %", "49 to 63 %", "gain0.4-noise8-crf32", "33 of 41", "0.213", "and 2 more", "s-3", "kept"):
        assert words in text, words
    assert EVIL not in text
    assert 'href="/console/drift/npu-4t/indoor-night"' in text
    assert text.split('<svg class="plane"')[1].split("</svg>")[0].count("<circle") == 61


def test_a_cluster_that_is_gone_and_a_source_that_is_down_say_so(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    gone = visitor.get("/console/clusters/c-99")
    assert gone.status_code == 404
    assert "its run was forgotten" in gone.text
    twin.down.add("/curation/v1/coverage")
    assert "the database does not answer" in visitor.get("/console/clusters").text
    twin.down = {"/curation"}
    assert "the database does not answer" in visitor.get("/console/clusters").text
    assert visitor.get("/console/clusters/c-1").status_code == 503


def test_nothing_hard_yet_says_what_fills_the_page(visitor: httpx.Client, twin: Twin) -> None:
    twin.clusters = []
    assert "nothing hard came yet" in enter(visitor, "viewer").get("/console/clusters").text
