"""The claims linter: the articles' examples of forbidden and allowed wording, in Chinese and English."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from services.claims.domain.lint import Finding, Proof, lint
from services.claims.domain.rules import RulesError, parse
from services.claims.rulebook import read_rules

BOOK = read_rules()
NOW = datetime(2026, 11, 30, tzinfo=UTC)
ALLOWED = (
    "实验室环境下，1080p→4K 主观清晰度提升 最高可达 30%（基于 LPIPS 指标）。",
    "旗舰机型典型场景下 平均延迟 25 ms/帧。",
    "持续运行 30 分钟，SoC 功耗 均值 420 mW。",
)
FORBIDDEN = {
    "画质翻倍": "zh-quality-doubled",
    "媲美原生 4K": "zh-native-4k",
    "无损放大": "zh-lossless",
    "零延迟": "zh-zero-latency",
    "毫秒级无感": "zh-zero-latency",
    "零功耗": "zh-zero-power",
    "不发热": "zh-zero-power",
    "行业领先的算法": "zh-absolute",
    "Zero latency": "en-zero-latency",
    "as good as native 4K": "en-native-4k",
    "lossless upscaling": "en-lossless",
    "the best picture": "en-absolute",
    "it never overheats": "en-zero-power",
    "doubles the picture quality": "en-quality-doubled",
}


def rules_of(found: list[Finding], severity: str = "error") -> set[str]:
    return {finding.rule for finding in found if finding.severity == severity}


@pytest.mark.parametrize("text", ALLOWED)
def test_what_the_articles_call_compliant_has_no_error(text: str) -> None:
    assert rules_of(lint(text, BOOK)) == set()


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_the_articles_forbid_is_an_error(text: str) -> None:
    assert FORBIDDEN[text] in rules_of(lint(f"新版本：{text}。", BOOK))


@pytest.mark.parametrize("text", ["零 延 迟", "**零**延迟", "零\u200b延迟", "０延迟"])
def test_hidden_wording_is_found(text: str) -> None:
    assert rules_of(lint(text, BOOK)) == {"zh-zero-latency"}


@pytest.mark.parametrize(
    "text",
    [
        "用 best-effort 方式发送。",
        "设备的唯一标识不会上传。",
        "第一次启动时下载。",
        "最高 4K 输入。",
        "```\nzero latency\n```\n",
        "See https://example.org/zero-latency for more.",
        "支持 2 倍超分。",
    ],
)
def test_ordinary_wording_is_left_alone(text: str) -> None:
    assert lint(text, BOOK) == []


def test_a_finding_names_line_and_column_of_the_original() -> None:
    found = lint("Notes\n\n新版 **零**延迟。", BOOK)
    assert [(finding.line, finding.column, finding.text) for finding in found] == [(3, 6, "零延迟")]


def test_a_number_without_a_condition_is_an_error_and_without_evidence_a_warning() -> None:
    found = lint("Latency fell by 30 %.", BOOK)
    assert rules_of(found) == {"number-without-condition"}
    assert rules_of(found, "warning") == {"number-without-evidence"}


def test_a_condition_in_another_sentence_does_not_count() -> None:
    assert rules_of(lint("Measured on a phone. Latency fell by 30 %.", BOOK)) == {"number-without-condition"}


def test_a_cited_number_must_be_in_the_evidence() -> None:
    proofs = {"sr-q4": Proof(frozenset({(Decimal(25), "ms")}), NOW.replace(year=2029))}
    good = "旗舰机型典型场景下平均延迟 25 毫秒[证据：sr-q4]。"
    assert lint(good, BOOK, proofs, NOW) == []
    assert rules_of(lint(good.replace("25", "20"), BOOK, proofs, NOW)) == {"number-not-in-evidence"}
    assert rules_of(lint(good.replace("sr-q4", "sr-q3"), BOOK, proofs, NOW)) == {"evidence-unknown"}
    assert rules_of(lint(good, BOOK, proofs, NOW.replace(year=2030))) == {"evidence-past-its-term"}


def test_a_citation_that_cannot_be_followed_is_said() -> None:
    found = lint("Measured on a phone: 25 ms [evidence: sr-q4].", BOOK)
    assert rules_of(found) == set()
    assert rules_of(found, "warning") == {"evidence-not-followed"}


def test_one_rule_is_silenced_on_one_line_with_a_reason() -> None:
    text = "零延迟 <!-- claims-allow: zh-zero-latency because the law text is quoted -->\n零延迟\n"
    assert [finding.line for finding in lint(text, BOOK)] == [2]
    without_reason = "零延迟 <!-- claims-allow: zh-zero-latency because -->".replace("because -->", "-->")
    assert len(lint(without_reason, BOOK)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "a*"}, "matches nothing"),
        ({"remedy": ""}, "lacks remedy"),
        ({"severity": "fatal"}, "unknown"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_name(change: dict[str, str], said: str) -> None:
    rule = {"id": "mine", "pattern": "x", "message": "m", "remedy": "r"} | change
    with pytest.raises(RulesError, match=said):
        parse({"numbers": {"units": {"ms": []}}, "rule": [rule]})
