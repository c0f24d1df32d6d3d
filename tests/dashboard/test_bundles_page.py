"""*Bundles*: list, one bundle with memory map, timeline and placement, and two beside each other."""

from __future__ import annotations

import re

import httpx

from tests.dashboard.conftest import enter
from tests.dashboard.twin import EVIL, Twin, build_of


def test_bundles_are_listed_with_size_state_and_a_way_to_compare(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/bundles").text
    assert 'href="/console/bundles/b-3"' in text
    assert text.count('name="build"') == 3
    assert "0.91 MB" in text
    assert 'action="/console/bundles/compare"' in text


def test_the_list_has_pages_and_a_build_without_bundle_cannot_be_compared(visitor: httpx.Client, twin: Twin) -> None:
    from contracts.wire import BuildState

    made = [build_of(f"b-{n:03d}", f"1.{n}", BuildState.PASSED) for n in range(60)]
    made[0] = made[0].model_copy(update={"digest": "", "state": BuildState.COMPILING})
    twin.builds = {build.id: build for build in made}
    text = enter(visitor, "viewer").get("/console/bundles").text
    assert text.count('name="build"') == 49
    assert 'rel="next"' in text


def test_one_bundle_shows_memory_map_timeline_placement_and_sizes(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/bundles/b-3").text
    memory = text.split('<svg class="memory"')[1].split("</svg>")[0]
    assert memory.count("<rect") == 4  # three ranges and the frame of the memory
    line = text.split('<svg class="lanes"')[1].split("</svg>")[0]
    assert line.count('class="span ') == 6
    for words in (
        "conv1",
        "Conv_0, Relu_1",
        "no such operator",
        "CPU",
        "4.500 ms",
        "npu-4t/model.npu",
        "runs on the CPU",
        "npu-4t/model: constants coded: 36,864 bytes",
    ):
        assert words in text, words
    assert EVIL not in text
    assert 'href="/console/bundles/b-3?profile=1"' in text
    assert visitor.get("/console/bundles/b-3?profile=1").status_code == 200
    beyond = visitor.get("/console/bundles/b-3?profile=9").text
    assert "has 2 profiles" in beyond
    assert visitor.get("/console/bundles/b-3?profile=x").status_code == 422


def test_two_bundles_stand_beside_each_other_with_the_difference_in_words(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/bundles/compare?build=b-1&build=b-3").text
    row = re.split(r"360x640", text)[1].split("</tr>")[0]
    assert "3.600" in row
    assert "4.500" in row
    assert "+25.0 %" in row
    assert "slower" in row
    one = visitor.get("/console/bundles/compare?build=b-1")
    assert one.status_code == 422
    assert "Choose two" in one.text
    assert visitor.get("/console/bundles/compare").status_code == 422


def test_a_bundle_that_is_not_there_yet_or_a_service_that_is_down_says_so(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    twin.builds["b-1"] = twin.builds["b-1"].model_copy(update={"digest": ""})
    waiting = visitor.get("/console/bundles/b-1")
    assert waiting.status_code == 409
    assert "has no bundle" in waiting.text
    twin.down.add("/builds/v1/builds/b-3/report")
    assert visitor.get("/console/bundles/compare?build=b-3&build=b-1").status_code == 503
    twin.down = {"/builds"}
    assert "the database does not answer" in visitor.get("/console/bundles").text
    twin.down, twin.builds = set(), {}
    assert "No bundle yet" in visitor.get("/console/bundles").text
