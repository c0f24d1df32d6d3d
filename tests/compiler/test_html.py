"""The HTML page: complete in itself, well formed, every picture named, described and backed by a table."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from compiler.driver import compile_bundle
from compiler.html import render_page
from compiler.html.lanes import COMPUTE, lanes, window
from compiler.html.svg import Scale, merged, round_step, spread
from compiler.measures.views import view_file
from tests.compiler.bundles import WAYS, bundle, profile, view
from tests.compiler.host_nets import HOST
from tests.compiler.qdq_nets import SHAPE

VOID = {"meta", "link", "br", "img", "input", "hr"}
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@cache
def page(way: str) -> str:
    return render_page(view(way))


class Balance(HTMLParser):
    """Keeps the open elements, and all ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if tag == "a" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("way", WAYS)
def test_elements_are_balanced_ids_unique_and_links_lead_somewhere(way: str) -> None:
    parser = Balance()
    parser.feed(page(way))
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert parser.links
    assert {link.removeprefix("#") for link in parser.links} <= set(parser.ids)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_fetched_and_no_script_is_needed(way: str) -> None:
    text = page(way)
    assert "<script" not in text
    assert not re.search(r"""(src|href)=["'](?!#)""", text)
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize("way", WAYS)
def test_every_picture_has_a_title_and_a_description(way: str) -> None:
    pictures = SVG.findall(page(way))
    assert len(pictures) >= 4 * 4
    for text in pictures:
        drawing = ElementTree.fromstring(text)  # noqa: S314  # our own text
        assert drawing.get("role") == "img"
        first, second = list(drawing)[:2]
        assert (first.tag, second.tag) == ("title", "desc")
        assert first.text
        assert second.text
        assert drawing.get("aria-labelledby") == f"{first.get('id')} {second.get('id')}"


@pytest.mark.parametrize("way", WAYS)
def test_text_and_boxes_stay_inside_their_picture(way: str) -> None:
    for text in SVG.findall(page(way)):
        drawing = ElementTree.fromstring(text)  # noqa: S314
        width, height = (float(side) for side in str(drawing.get("viewBox")).split()[2:])
        for element in drawing.iter():
            if element.tag in ("rect", "text"):
                x, y = float(str(element.get("x"))), float(str(element.get("y")))
                assert -0.1 <= x <= width, ElementTree.tostring(element)
                assert -0.1 <= y <= height
            if element.tag == "rect":
                assert x + float(str(element.get("width"))) <= width + 0.1
                assert y + float(str(element.get("height"))) <= height + 0.1


def test_every_kernel_is_named_in_the_timeline_and_the_bars() -> None:
    text = page("striped")
    for name in ("head", "block0", "block1", "block2", "tail"):
        assert text.count(f">{name}</text>") >= 3


def test_the_answers_both_array_models_and_the_reasons_are_there() -> None:
    text = page("unplanned")
    for wanted in ("fits", "limited by", "u85-like", "ideal", "memory planning is switched off", "Roofline"):
        assert wanted in text
    assert "DDR of npu-4t/model 360x640" in text
    assert "DDR of npu-4t/model 360x640" not in page("striped")


def test_what_runs_on_the_cpu_says_why(tmp_path: Path) -> None:
    path = tmp_path / "host.elb"
    compile_bundle(HOST["dynamic upsampling"](), None, None, ["npu-4t"], [SHAPE], {}, path, "1", 0)
    text = render_page(view_file(path))
    assert "host0: filters that differ by pixel have no NPU command" in text
    assert "<td>CPU</td><td>HOST</td>" in text


def test_a_long_frame_has_an_excerpt_and_a_short_one_none() -> None:
    assert "The marked excerpt" in page("striped")
    assert "The marked excerpt" not in page("whole")


def test_names_from_a_model_cannot_become_markup() -> None:
    program = view("whole").programs[0]
    kernels = {
        **program.kernels,
        "unfused": [{"producer": "<script>x</script>", "consumer": "a&b", "reason": '"><img src=x>'}],
        "changes": ["pass: <b>"],
    }
    hostile = replace(view("whole"), file="<i>.elb", programs=(replace(program, kernels=kernels),))
    text = render_page(hostile)
    assert "<script>x" not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;x" in text


def test_the_same_bundle_gives_the_same_page() -> None:
    assert render_page(view_file(bundle("whole"))) == page("whole")


def test_lanes_are_kernels_then_directions_of_transfer() -> None:
    found = profile("striped")
    rows = lanes(found.commands, found.frame().estimate.events)
    assert [lane.name for lane in rows if lane.queue == COMPUTE] == ["head", "block0", "block1", "block2", "tail"]
    assert {lane.name for lane in rows if lane.queue != COMPUTE} >= {"DMA: DDR to SRAM", "DMA: SRAM to DDR"}
    stripes = [bar.stripe for lane in rows if lane.name == "block1" for bar in lane.bars]
    assert stripes == sorted(stripes)
    assert stripes[0] == 1
    assert stripes[-1] == found.frame().usage.kernels[2].stripes


def test_the_excerpt_is_a_few_stripes_from_the_middle() -> None:
    found = profile("striped")
    rows = lanes(found.commands, found.frame().estimate.events)
    chosen = window(rows)
    assert chosen is not None
    begin, end = chosen
    total = found.frame().estimate.total_ns
    assert 0.2 * total < begin < end < 0.8 * total
    assert 4 <= sum(len(lane.between(begin, end)) for lane in rows) <= 160


def test_ticks_are_round_and_inside() -> None:
    assert [round_step(value) for value in (0.7, 1.0, 3.0, 7.0, 0.0)] == [1.0, 1.0, 5.0, 10.0, 1.0]
    assert Scale(0, 10, 0, 100).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(3.1, 9.9, 0, 100).ticks(3) == [5.0]


def test_labels_are_pushed_apart_and_stay_within() -> None:
    places = spread([0, 1, 2, 95, 96, 99], 10, 0, 100)
    assert all(b - a >= 9.999 for a, b in itertools.pairwise(places))
    assert places[0] >= 0
    assert places[-1] <= 100


def test_spans_closer_than_a_pixel_are_drawn_as_one() -> None:
    assert merged([(0, 1), (1.1, 2), (5, 5)], 0.4, 0.5) == [(0, 2), (5, 5.5)]
