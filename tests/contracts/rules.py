"""Random rules and devices for tests of targeting."""

from __future__ import annotations

from hypothesis import strategies as st

from contracts.targeting import All, Among, Compare, Either, Not, Rule
from contracts.targeting.facts import NAMES, ORDERED
from contracts.targeting.syntax import ORDER

WORDS = ("weak", "good", "a12", "b3", "meeting", "unknown", "npu-4t")
VERSIONS = ("0", "1", "1.0", "1.4", "1.4.0", "1.4.1", "1.10", "2.0.0.0", "10", "007.1", "123456789.1")
SAID = (*WORDS, *VERSIONS, "", "1.4.0-rc1", "1.4rc", "v1.4", "simulated", "1234567890", "1..2", "0.0", "1.0000000000")


def words(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(VERSIONS if name in ORDERED else WORDS)


@st.composite
def tests_of_a_fact(draw: st.DrawFn) -> Rule:
    name = draw(st.sampled_from(NAMES))
    if name in ORDERED and draw(st.booleans()):
        return Compare(name, draw(st.sampled_from(ORDER)), draw(words(name)))
    return Among(name, tuple(sorted(draw(st.sets(words(name), min_size=1, max_size=3)))))


def _grown(inner: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(inner.map(Not), parts.map(All), parts.map(Either))


rules = st.recursive(tests_of_a_fact(), _grown, max_leaves=6)
devices = st.fixed_dictionaries({}, optional={name: st.sampled_from(SAID) for name in NAMES})
