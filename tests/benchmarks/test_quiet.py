"""Tools that are hushed leave the root logger as it was, also when they fail."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from benchmarks.quantising.static import static


def test_the_level_comes_back_also_after_a_failure(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    try:
        with pytest.raises(Exception, match=r".+"):
            static(b"no model", [torch.zeros(1, 3, 8, 8)], "ort_minmax", tmp_path)
        assert root.level == logging.INFO
    finally:
        root.setLevel(before)
