"""The committed golden vectors are the ones that the golden interpreter makes."""

from __future__ import annotations

from importlib import resources

from compiler.vectors import text


def test_the_committed_vectors_are_up_to_date() -> None:
    committed = resources.files("contracts.npu") / "vectors" / "arithmetic.json"
    assert committed.read_text(encoding="utf-8") == text(), "run python -m compiler.vectors and commit the file"
