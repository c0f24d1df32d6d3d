"""The rule language: what it means, that it reads back what it writes, and what it says of a wrong text."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable
from importlib.resources import files
from itertools import zip_longest

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contracts.device import DeviceTags
from contracts.state import Audience, LayerSlice, RolloutEntry, Target, bucket
from contracts.targeting import (
    LIMITS,
    All,
    Among,
    Compare,
    Either,
    Facts,
    Not,
    Rule,
    RuleError,
    facts_of,
    holds,
    parse,
    render,
)
from contracts.targeting.facts import ORDERED
from contracts.targeting.versions import version_key
from tests.contracts.rules import devices, rules

VECTORS = json.loads((files("contracts.targeting") / "vectors.json").read_text())
EXAMPLE = 'model in ("A12", "B3") and network != "weak" and scenario == "meeting" and version >= "1.4"'
MEETING = DeviceTags(device_class="b3", network="good", scenario="meeting")


def test_the_example_of_the_manual_means_what_it_says() -> None:
    rule = parse(EXAMPLE)
    assert holds(rule, facts_of(MEETING, "1.4.0"))
    assert holds(rule, facts_of(MEETING, "1.10"))
    assert not holds(rule, facts_of(MEETING, "1.3.9"))
    assert not holds(rule, facts_of(MEETING.model_copy(update={"network": "weak"}), "1.4"))
    assert not holds(rule, facts_of(MEETING.model_copy(update={"device_class": "c1"}), "1.4"))


@given(rules)
def test_a_rule_that_is_written_down_is_read_back_as_the_same_rule(rule: Rule) -> None:
    text = render(rule)
    refused = refusal(text)
    assume(refused is None or ("deeper" not in refused.problem and "longer" not in refused.problem))
    assert refused is None
    assert parse(text) == rule
    assert render(parse(text)) == text


@given(rules, devices)
def test_a_rule_holds_for_whom_a_literal_reading_says_it_does(rule: Rule, facts: Facts) -> None:
    assert holds(rule, facts) is oracle(rule, facts)


@given(rules, devices)
def test_every_device_is_meant_by_a_rule_or_by_its_opposite(rule: Rule, facts: Facts) -> None:
    assert holds(rule, facts) != holds(Not(rule), facts)


def test_published_vectors_hold_for_rules_buckets_and_slices() -> None:
    for case in VECTORS["rules"]:
        assert render(parse(case["rule"])) == case["normal"], case
        for device in case["devices"]:
            assert holds(parse(case["rule"]), device["facts"]) is device["holds"], (case["rule"], device)
    for case in VECTORS["buckets"]:
        assert bucket(case["salt"], case["device"]) == case["bucket"], case
    for case in VECTORS["slices"]:
        place = LayerSlice(salt=case["salt"], low=case["low"], high=case["high"])
        assert place.holds(case["device"]) is case["holds"], case
    for case in VECTORS["refused"]:
        with pytest.raises(RuleError) as raised:
            parse(case["rule"])
        assert raised.value.position == case["position"], case


@pytest.mark.parametrize(
    ("text", "position", "problem", "remedy"),
    [
        ("", 0, "end of the rule", "a test is like"),
        ('netwrk == "weak"', 0, "'netwrk'", "did you mean network?"),
        ('network = "weak"', 8, "'=' means nothing", "write =="),
        ("network == weak", 11, "'weak' was not expected", "in quotes"),
        ('network == "weak', 11, "means nothing", 'close the quoted word with "'),
        ('network < "weak"', 8, "no order", "use ==, != or in"),
        ('version >= "new"', 11, "no version", "like"),
        ('network == "we ak"', 11, "no device can say", "letters, digits"),
        ('network == "weak" network == "good"', 18, "not expected", "`and` or `or`"),
        ('(network == "weak"', 18, "end of the rule", "close the parenthesis"),
        ('network in ("weak" "good")', 19, "not expected", "part words with `,`"),
        ('network in ("weak",)', 19, "not expected", "in quotes"),
        ('network not "weak"', 12, "not expected", "not in"),
        ('network == "weak" && region == "eu"', 18, "'&'", "write `and`"),
        ("version >= 1.4", 11, "'1'", "put it in quotes"),
        ("and", 0, "'and'", "a test is like"),
        ("network", 7, "end of the rule", "a test is like"),
    ],
)
def test_what_is_no_rule_is_refused_with_place_and_remedy(text: str, position: int, problem: str, remedy: str) -> None:
    with pytest.raises(RuleError) as raised:
        parse(text)
    assert raised.value.position == position
    assert problem in raised.value.problem
    assert remedy in raised.value.remedy
    assert f"character {position + 1}" in str(raised.value)
    assert raised.value.pointed(text).splitlines()[1].index("^") == position


def test_length_depth_and_lists_are_bounded() -> None:
    inner = 'network == "weak"'
    assert parse("(" * LIMITS.depth + inner + ")" * LIMITS.depth) == parse(inner)
    too_many = ", ".join(f'"{number:x}"' for number in range(LIMITS.words + 1))
    for text, words in (
        ("(" * (LIMITS.depth + 1) + inner + ")" * (LIMITS.depth + 1), "nested deeper"),
        ("not " * (LIMITS.depth + 1) + inner, "nested deeper"),
        (" " * (LIMITS.text_chars + 1), "longer than"),
        (f"network in ({too_many})", "more than"),
    ):
        with pytest.raises(RuleError, match=words):
            parse(text)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=600), st.text(alphabet='()"andortiv,<>=! .14_-', max_size=600)))
def test_any_text_is_a_rule_or_a_refusal_within_it(text: str) -> None:
    refused = refusal(text)
    if refused is None:
        assert parse(render(parse(text))) == parse(text)
    else:
        assert 0 <= refused.position <= max(len(text), LIMITS.text_chars)
        assert refused.remedy


def test_a_rule_whose_normal_spelling_is_too_long_is_refused_before_a_device_sees_it() -> None:
    listed = ",".join(f'"{number:06}"' for number in range(54))
    text = f"model in({listed})"
    assert len(text) <= LIMITS.text_chars
    with pytest.raises(RuleError, match="normal spelling"):
        parse(text)


def refusal(text: str) -> RuleError | None:
    try:
        parse(text)
    except RuleError as error:
        return error
    return None


def test_words_that_are_no_version_are_older_than_every_version() -> None:
    assert version_key("simulated") == version_key("") < version_key("0")
    assert version_key("1.4") == version_key("1.4.0") < version_key("1.4.0.1") < version_key("1.10")


def entry(**audience: object) -> RolloutEntry:
    target = Target(path="b.elb", digest="b" * 96, length=1, release_version="2", security_epoch=1)
    return RolloutEntry.model_validate({"id": "r", "target": target, "salt": "s", "basis_points": 10_000, **audience})


def test_a_rule_that_a_device_cannot_read_means_nobody() -> None:
    assert not Audience(rule='colour == "red"').includes("d", facts_of(MEETING))


def test_an_agent_that_is_too_old_for_rules_passes_the_entry_over() -> None:
    """An old agent knows selectors only, and ignores members that it does not know."""
    new = entry(rule='network == "good"', layer=LayerSlice(salt="l", low=0, high=10_000))
    served = entry(rule=new.rule, layer=new.layer, selector=new.guarded())
    assert served.includes("d", facts_of(MEETING))
    tags = MEETING.model_dump()
    assert not all(tags.get(name) in allowed for name, allowed in served.selector.items()), "as the old code decides"
    future = entry(selector={"reads": ("rule", "something-newer")})
    assert not future.includes("d", facts_of(MEETING))


def oracle(rule: Rule, facts: Facts) -> bool:
    """A second reading, by Python's own expression of the same tree, with versions compared number by number."""
    return bool(eval(compile(ast.Expression(_tree(rule, facts)), "rule", "eval")))  # noqa: S307  our own tree


def _tree(rule: Rule, facts: Facts) -> ast.expr:
    match rule:
        case Among(name, words):
            said = facts.get(name, "")
            same: Callable[[str], bool] = (lambda word: _order(said, word) == 0) if name in ORDERED else said.__eq__
            found: ast.expr = ast.Constant(any(same(word) for word in words))
        case Compare(name, sign, word):
            compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
            found = ast.Constant(compare(_order(facts.get(name, ""), word), 0))
        case Not(part):
            found = ast.UnaryOp(ast.Not(), _tree(part, facts))
        case All(parts):
            found = ast.BoolOp(ast.And(), [_tree(part, facts) for part in parts])
        case Either(parts):
            found = ast.BoolOp(ast.Or(), [_tree(part, facts) for part in parts])
    return ast.fix_missing_locations(ast.copy_location(found, ast.Constant(0, lineno=1, col_offset=0)))


def _order(left: str, right: str) -> int:
    """-1, 0 or 1: numbers one by one, what is missing counts as zero, no number at all as older than any."""
    one, other = _numbers(left), _numbers(right)
    if not one or not other:
        return bool(one) - bool(other)
    for a, b in zip_longest(one, other, fillvalue=0):
        if a != b:
            return -1 if a < b else 1
    return 0


def _numbers(word: str) -> list[int]:
    found: list[int] = []
    rest = word
    while match := re.match(r"[0-9]{1,9}", rest):
        found.append(int(match.group()))
        rest = rest[match.end() :]
        if len(found) == 8 or not re.match(r"\.[0-9]", rest):
            break
        rest = rest[1:]
    return found
