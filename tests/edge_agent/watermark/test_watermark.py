"""Marks in weights: read back by key, robust to damage, cheap for the picture, put in when a bundle is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from contracts.bundle import Bundle
from contracts.clock import SystemClock
from contracts.npu.program import Program
from edge_agent.config import load_config
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader
from edge_agent.runtime.backend import BackendOptions
from edge_agent.store import BundleStore
from edge_agent.tee.core import Tee
from edge_agent.watermark import Mark, Marker, WatermarkError, mark_program, read_program
from edge_agent.watermark.carriers import carriers
from edge_agent.watermark.cli import app
from edge_agent.watermark.code import BITS, COPIES, read, write
from tests.support.real_bundle import SIZE, compile_real
from tests.support.sealing_twin import CLASSES, Sealer

KEY = bytes(range(16))
MARK = Mark(4_211, 493_012)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(compile_real(tmp_path_factory.mktemp("made"), "1.0").path)


@pytest.fixture
def program(bundle: Bundle) -> Program:
    return bundle.program("npu-4t", "model")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(min_size=16, max_size=40), st.integers(0, 9))
def test_whatever_is_written_is_read(batch: int, hour: int, key: bytes, seed: int) -> None:
    carriers = np.random.default_rng(seed).integers(0, 256, 5_000, dtype=np.uint8)
    found = read(write(carriers, Mark(batch, hour), key), key)
    assert (found.mark, found.agreement) == (Mark(batch, hour), 1.0)


def test_a_mark_changes_a_few_weights_by_one_step_and_nothing_else(program: Program) -> None:
    marked = mark_program(program, MARK, KEY)
    places = carriers(program)
    steps = marked.constants.view(np.int8).astype(np.int16) - program.constants.view(np.int8)
    assert 0 < np.count_nonzero(steps) <= BITS * COPIES
    assert np.abs(steps).max() == 1
    assert set(np.flatnonzero(steps)) <= set(places)
    assert (carriers(marked) == places).all(), "the reader finds the same carriers"
    assert read_program(marked, KEY).mark == MARK


def test_no_mark_is_found_where_there_is_none_or_under_another_key(program: Program) -> None:
    marked = mark_program(program, MARK, KEY)
    for index in range(200):
        with pytest.raises(WatermarkError):
            read_program(marked, index.to_bytes(16, "big") + b"x")
    with pytest.raises(WatermarkError, match="no mark"):
        read_program(program, KEY)


def test_a_tenth_of_all_weights_rewritten_does_not_hide_the_mark(program: Program) -> None:
    places = carriers(program)
    marked = mark_program(program, MARK, KEY)
    constants = marked.constants.copy()
    chance = np.random.default_rng(1)
    hurt = chance.choice(places, len(places) // 10, replace=False)
    constants[hurt] ^= chance.integers(0, 2, len(hurt), dtype=np.uint8)
    found = read(constants[places], KEY)
    assert found.mark == MARK
    assert 0.9 < found.agreement < 1.0


def test_a_network_that_is_too_small_or_a_short_key_is_refused() -> None:
    with pytest.raises(WatermarkError, match="too small"):
        write(np.zeros(100, np.uint8), MARK, KEY)
    with pytest.raises(WatermarkError, match="give 16"):
        write(np.zeros(5_000, np.uint8), MARK, b"short")
    with pytest.raises(WatermarkError, match="below"):
        write(np.zeros(5_000, np.uint8), Mark(2**32, 0), KEY)


def test_a_device_holds_the_mark_in_memory_and_its_file_keeps_its_hashes(bundle: Bundle) -> None:
    os.utime(bundle.path, (MARK.hour * 3_600 + 5, MARK.hour * 3_600 + 5))
    plain = RunnerLoader("npu-4t", SystemClock()).load(bundle)
    options = BackendOptions(marker=Marker(MARK.batch, KEY))
    marked = RunnerLoader("npu-4t", SystemClock(), options=options).load(bundle)
    assert Bundle.open(bundle.path).digest == bundle.digest

    held = np.frombuffer(marked.weights[0], np.uint8)
    assert read(held[carriers(bundle.program("npu-4t", "model"))], KEY).mark == MARK
    frame = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    images = [playback.runner.upscale(frame).result for playback in (plain, marked)]
    assert images[0] is not None
    assert images[1] is not None
    difference = np.abs(images[0].image.astype(int) - images[1].image)
    assert 0 < difference.mean() < 2


def test_a_sealed_bundle_is_marked_in_memory_as_well(bundle: Bundle, tmp_path: Path) -> None:
    """The hour is that of the stored file, so a restart gives the same mark; what lies on the disk stays."""
    tee, sealer = Tee(tmp_path / "tee", CLASSES), Sealer()
    path, sealed = sealer.bundle(bundle.path.read_bytes(), bundle.digest, bundle.manifest.security_epoch)
    stored = tee.admit(sealed, sealer.envelope(path, tee.public().sealing) or b"", "npu-4t")
    store = BundleStore(tmp_path / "bundles", Disk(), tee)
    opened = store.adopt_stored(store.incoming(bundle.digest, "me"), stored, bundle.digest)
    os.utime(store.stored_path(bundle.digest), (MARK.hour * 3_600 + 5, MARK.hour * 3_600 + 5))
    options = BackendOptions(marker=Marker(MARK.batch, KEY))
    marked = RunnerLoader("npu-4t", SystemClock(), options=options).load(opened)
    held = np.frombuffer(marked.weights[0], np.uint8)
    assert read(held[carriers(bundle.program("npu-4t", "model"))], KEY).mark == MARK
    assert store.stored_path(bundle.digest).read_bytes() == stored


def test_the_key_never_shows(tmp_path: Path) -> None:
    assert KEY.hex() not in repr(Marker(1, KEY))
    bad = tmp_path / "key"
    bad.write_text("not hexadecimal: hunter2")
    shown = CliRunner().invoke(app, ["read", str(tmp_path / "x.npu"), "--key-file", str(bad)])
    assert shown.exit_code == 2
    assert "hunter2" not in shown.output


def test_put_and_read_by_command(bundle: Bundle, tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "leaked.npu"
    key.write_text(KEY.hex())
    put = [str(bundle.path), str(out), "--key-file", str(key), "--batch", "77", "--hour", "493012"]
    assert CliRunner().invoke(app, ["put", *put]).exit_code == 0
    done = CliRunner().invoke(app, ["read", str(out), "--key-file", str(key), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["batch"], found["installed"], found["agreement"]) == (77, "2026-03-30T04:00:00+00:00", 1.0)

    key.write_text(bytes(20).hex())
    assert CliRunner().invoke(app, ["read", str(out), "--key-file", str(key)]).exit_code == 1
    out.write_bytes(b"noise")
    assert CliRunner().invoke(app, ["read", str(out), "--key-file", str(key)]).exit_code == 2


def test_batch_and_key_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    chosen = {"state_dir": "d", "factory_bundle": "b.elb", "source": "s.mp4", "tags": {"device_class": "npu-4t"}}
    path.write_text(json.dumps({**chosen, "watermark": {"batch": 5, "key_file": "/k"}}))
    config = load_config(path, {})
    assert config.watermark is not None
    assert config.watermark.batch == 5
