"""Backends are found by name: built in, or brought by another package."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from edge_agent.runtime import backend as backends
from edge_agent.runtime.backend import BackendOptions, BackendUnknown
from edge_agent.runtime.registry import backend


class Board:
    """A backend of another package."""

    name = "board"

    def __init__(self, options: BackendOptions) -> None:
        self.options = options


def test_built_in_backends_have_their_names() -> None:
    assert [backend(name).name for name in ("npu", "onnxruntime")] == ["npu", "onnxruntime"]


def test_a_backend_of_another_package_is_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("board", f"{__name__}:Board", backends.ENTRY_POINT_GROUP)
    monkeypatch.setattr(backends, "entry_points", lambda group: EntryPoints([entry]))
    assert backend("board", BackendOptions(seed=5)).options.seed == 5  # type: ignore[attr-defined]


def test_an_unknown_backend_is_refused_with_the_installed_ones() -> None:
    with pytest.raises(BackendUnknown, match="no backend 'abacus'; installed: npu, onnxruntime"):
        backend("abacus")
