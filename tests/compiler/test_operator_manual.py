"""The operator table is what the support checks say."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.importer.operators import CONVERTERS
from compiler.operators.__main__ import main
from compiler.operators.manual import manual


def test_the_committed_table_is_up_to_date() -> None:
    assert main(["--check"]) == 0, "run python -m compiler.operators --write and commit the page"


def test_a_table_that_differs_is_noticed_and_can_be_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "operators.md"
    page.write_text("old", encoding="utf-8")
    assert main(["--check", str(page)]) == 1
    assert "run python -m compiler.operators --write" in capsys.readouterr().err
    assert main(["--write", str(page)]) == 0
    assert main(["--check", str(page)]) == 0
    assert main([]) == 2


def test_every_operator_has_a_line() -> None:
    text = manual()
    for operator in CONVERTERS:
        assert f"| `{operator}` | " in text
