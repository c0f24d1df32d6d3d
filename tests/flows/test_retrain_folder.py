"""Artefacts of a run are whole or absent, and a step that left its result is not repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.errors import FlowError
from flows.model_store import ModelStore
from flows.retrain import new_key
from flows.run_folder import RunFolder
from flows.tasks.vsr.architecture import HAND_MADE


def test_a_finished_step_is_not_done_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, int]:
        calls.append(1)
        return {"value": 7}

    assert RunFolder(tmp_path).step("train", make) == {"value": 7}
    assert RunFolder(tmp_path).step("train", make) == {"value": 7}
    assert len(calls) == 1
    assert RunFolder(tmp_path).steps()["train"]["seconds"] >= 0


def test_a_step_that_died_is_done_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)

    def fails() -> dict[str, int]:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        folder.step("train", fails)
    assert not folder.has("train.json")
    assert folder.step("train", lambda: {"value": 1}) == {"value": 1}


def test_a_half_written_artefact_is_not_seen(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / ".model.onnx.part").write_bytes(b"half")
    assert not folder.has("model.onnx")


FILES = dict.fromkeys(("model.onnx", "supernet.npz", "quality.onnx", "observer.npz"), b"x")


def test_a_generation_becomes_current_in_one_step(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.add("g1", FILES, HAND_MADE, ("{}",))
    store.promote("g1")
    assert ModelStore(tmp_path).current().name == "g1"
    assert ModelStore(tmp_path).current().architecture == HAND_MADE


def test_an_incomplete_generation_never_becomes_current(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.add("g1", {"model.onnx": b"x"}, HAND_MADE, ())
    with pytest.raises(FlowError, match="lacks"):
        store.promote("g1")


def test_missing_seeds_are_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="edgeloop seed"):
        ModelStore(tmp_path / "models", seeds=tmp_path / "none").current()


def test_an_alarm_always_names_the_same_run() -> None:
    assert new_key("abc") == new_key("abc") == "alarm-abc"
