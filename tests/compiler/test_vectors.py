"""The committed golden vectors are the ones that the golden interpreter makes."""

from __future__ import annotations

from importlib import resources

from compiler import vectors, vectors_operators


def test_the_committed_vectors_are_up_to_date() -> None:
    committed = resources.files("contracts.npu") / "vectors" / "arithmetic.json"
    assert committed.read_text(encoding="utf-8") == vectors.text(), "run python -m compiler.vectors and commit the file"


def test_the_committed_vectors_of_the_operators_are_up_to_date() -> None:
    committed = resources.files("contracts.npu") / "vectors" / "operators.json"
    text = vectors_operators.text()
    assert committed.read_text(encoding="utf-8") == text, "run python -m compiler.vectors_operators and commit the file"
