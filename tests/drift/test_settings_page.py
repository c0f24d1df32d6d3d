"""The page of settings says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from services.drift.limits import DriftSettings
from services.drift.schemas import ThresholdValues

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "drift-settings.md"
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([\d.]+) \| .* \| (.*?) ?\|$", re.MULTILINE)


def test_every_setting_stands_on_the_page_with_its_default_and_whether_a_cohort_may_differ() -> None:
    rows = {name.lower(): (float(default), own == "yes") for name, default, own in ROW.findall(PAGE.read_text())}
    fields = DriftSettings.model_fields
    own = set(ThresholdValues.model_fields)
    assert rows == {name: (float(field.default), name in own) for name, field in fields.items()}


def test_every_setting_has_its_unit_in_words() -> None:
    assert [name for name, field in DriftSettings.model_fields.items() if not field.description] == []
