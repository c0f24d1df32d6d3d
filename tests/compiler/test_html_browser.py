"""The page in headless Chromium, light and dark, wide and narrow: nothing overflows, nothing is fetched, names stay
readable. Screenshots are left in build/inspect/.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.html import render_page
from tests.compiler.bundles import WAYS, view

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = Path(__file__).resolve().parents[2] / "build" / "inspect"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
OPEN_ALL = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
OVERFLOW = """() => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const leaving = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        leaving.push(svg.querySelector('title').textContent + ': ' + text.textContent);
    }
  }
  return {wide, leaving};
}"""
COLLISIONS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++)
      for (let j = i + 1; j < boxes.length; j++) {
        const [a, p] = boxes[i], [b, q] = boxes[j];
        const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (across > 1 && down > 4) found.push(svg.querySelector('title').textContent + ': ' + a + ' / ' + b);
      }
  }
  return found;
}"""
CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const style = (selector, key) => parse(getComputedStyle(document.querySelector(selector))[key]);
  const found = {};
  for (const name of ['weights', 'scales', 'map', 'ring', 'staging'])
    if (document.querySelector('svg .m.' + name))
      found[name] = ratio(style('svg .m.' + name, 'fill'), style('svg .name', 'fill'));
  found.on = ratio(style('svg .t.compute', 'fill'), style('svg .on', 'fill'));
  found.tick = ratio(style('.panel', 'backgroundColor'), style('svg .tick', 'fill'));
  found.dim = ratio(style('.panel', 'backgroundColor'), style('.panel .dim', 'color'));
  return found;
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    """One Chromium for this module."""
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages as files."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for way in WAYS:
        found[way] = folder / f"{way}.html"
        found[way].write_text(render_page(view(way)), encoding="utf-8")
    return found


def opened(browser: playwright.Browser, path: Path, **options: object) -> tuple[playwright.Page, list[str]]:
    """A page with all its parts open, and whatever went wrong or left the file."""
    context = browser.new_context(java_script_enabled=True, **options)
    page, trouble = context.new_page(), []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.evaluate(OPEN_ALL)
    return page, trouble


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_nothing_overflows_and_nothing_is_fetched(
    browser: playwright.Browser, pages: dict[str, Path], way: str, scheme: str, width: int
) -> None:
    page, trouble = opened(browser, pages[way], viewport={"width": width, "height": 900}, color_scheme=scheme)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{way}-{scheme}-{width}.png", full_page=True)
    found = page.evaluate(OVERFLOW)
    page.context.close()
    assert trouble == []
    assert found == {"wide": 0, "leaving": []}


@pytest.mark.parametrize("way", WAYS)
def test_no_name_is_written_over_another(browser: playwright.Browser, pages: dict[str, Path], way: str) -> None:
    page, _ = opened(browser, pages[way], viewport={"width": 1280, "height": 900})
    found = page.evaluate(COLLISIONS)
    page.context.close()
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: playwright.Browser, pages: dict[str, Path], scheme: str) -> None:
    page, _ = opened(browser, pages["striped"], viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    found = page.evaluate(CONTRAST)
    page.context.close()
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_the_page_reads_without_scripts(browser: playwright.Browser, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["striped"].as_uri())
    playwright.expect(page.get_by_role("img", name="Timeline of npu-4t/model 360x640, whole frame")).to_be_visible()
    playwright.expect(page.get_by_text("no intermediate in DDR").first).to_be_visible()
    context.close()
