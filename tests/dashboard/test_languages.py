"""The page's words: every text has its translation, and the browser's wish or the switch chooses."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.datastructures import Headers

from services.dashboard import catalogues, languages
from services.dashboard.languages import COOKIE, choose
from tests.dashboard.conftest import enter

PLACES = re.compile(r"%\((\w+)\)s|<[^>]+>")


def test_every_text_of_the_page_is_translated_and_nothing_is_left_over() -> None:
    assert catalogues.faults("zh") == []


def test_a_new_text_without_translation_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    known = list(catalogues.texts())
    monkeypatch.setattr(catalogues, "texts", lambda: iter([*known, "a text that nobody translated"]))
    assert catalogues.faults("zh") == ["zh: missing: 'a text that nobody translated'"]


def test_translations_have_the_same_places_for_values() -> None:
    for message in catalogues._committed("zh"):
        if isinstance(message.id, str) and message.id:
            assert sorted(PLACES.findall(message.id)) == sorted(PLACES.findall(str(message.string))), message.id


def test_writing_the_catalogues_again_changes_nothing() -> None:
    import io

    from babel.messages.pofile import write_po

    written = io.BytesIO()
    write_po(written, catalogues.wanted("zh"), width=0, omit_header=False, sort_output=True, no_location=True)
    assert written.getvalue() == catalogues._file("zh").read_bytes()


@pytest.mark.parametrize(
    ("wish", "cookie", "language"),
    [
        ("", "", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "", "zh"),
        ("zh-TW", "", "zh"),
        ("fr, en;q=0.5, zh;q=0.4", "", "en"),
        ("de;q=1.0, zh;q=0.7, en;q=0.3", "", "zh"),
        ("zh;q=0", "", "en"),
        ("zh;q=abc", "", "en"),
        ("zh", "en", "en"),
        ("en", "zh", "zh"),
        ("en", "../../etc", "en"),
        ("," * 10_000, "", "en"),
    ],
)
def test_the_language_follows_the_switch_then_the_browser(wish: str, cookie: str, language: str) -> None:
    headers = {"accept-language": wish, **({"cookie": f"a=b; {COOKIE}={cookie}"} if cookie else {})}
    assert choose(Headers(headers)) == language


def test_a_page_in_chinese_says_so_and_still_carries_its_policy(visitor: httpx.Client) -> None:
    enter(visitor, "releaser")
    answer = visitor.get("/console/releases", headers={"Accept-Language": "zh-CN"})
    assert answer.headers["content-language"] == "zh-Hans"
    assert '<html lang="zh-Hans">' in answer.text
    for word in ("发布", "进行中", "回滚…", "第 2 / 3 阶段，25 %"):
        assert word in answer.text
    assert "unsafe" not in answer.headers["content-security-policy"]
    refused = visitor.get("/console/releases/x", headers={"Accept-Language": "zh-CN"})
    assert "content-language" not in refused.headers


def test_the_stations_of_the_overview_speak_chinese_too(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    text = visitor.get("/", headers={"Accept-Language": "zh-CN"}).text
    picture = text.split('<svg class="loop')[1].split("</svg>")[0]
    for word in ("240 台设备", "自行决定", "已覆盖 1 个", "25 %"):
        assert word in picture, word
    for word in ("devices", "decides", "clusters", "running"):
        assert word not in picture, word


def test_two_requests_at_once_keep_their_languages(visitor: httpx.Client) -> None:
    for wish, word in (("zh", "登录"), ("en", "Sign in"), ("zh", "登录")):
        assert f"<h1>{word}</h1>" in visitor.get("/login", headers={"Accept-Language": wish}).text
    assert languages.current() == "en"


def test_the_switch_goes_back_to_pages_of_this_site_only(visitor: httpx.Client) -> None:
    here = f"{visitor.base_url}/console/audit"
    for referer, back in (
        (here, "/console/audit"),
        ("https://evil.example/x", "/"),
        (f"{visitor.base_url}//evil.example", "/"),
        ("", "/"),
    ):
        answer = visitor.post("/language", data={"to": "zh"}, headers={"Referer": referer})
        assert answer.headers["location"] == back
    assert visitor.cookies[COOKIE] == "zh"
    assert "set-cookie" not in visitor.post("/language", data={"to": "xx"}).headers
