"""Streams on the backends: several in one frame, what a net keeps from frame to frame, and where a stream begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.driver import compile_bundle
from compiler.options import CompileOptions
from contracts.bundle import Bundle
from edge_agent.runtime.backend import Backend, BackendOptions, StreamBackend, Upscaled
from edge_agent.runtime.healing import Choice
from edge_agent.runtime.npu import DriverError
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.runtime.registry import backend
from edge_agent.runtime.runner import Runner
from tests.edge_agent.runtime.test_compiled import picture
from tests.support.agent_twin import HandClock, toy_observer
from tests.support.models import quality_qdq, recurrent_qdq, vsr_qdq

SIZE = (64, 96)
Pixels = NDArray[np.uint8]
FRAMES = [picture(*SIZE, seed) for seed in range(5)]


def made(folder: Path, model: bytes, options: CompileOptions, sizes: list[tuple[int, int]]) -> Bundle:
    observer = replace(toy_observer(), embedding_id="streams-1").to_bytes()
    path = folder / "a.elb"
    compile_bundle(model, quality_qdq(), observer, ["npu-4t"], sizes, {}, path, "1", 1, options=options)
    return Bundle.open(path)


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    sizes = [SIZE, (32, 48)]
    return made(tmp_path_factory.mktemp("recurrent"), recurrent_qdq(factor=2), CompileOptions(), sizes)


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    options = CompileOptions(streams=2)
    return made(tmp_path_factory.mktemp("stacked"), vsr_qdq(16, 16, 2, 3), options, [SIZE])


def loaded(name: str, bundle: Bundle) -> Backend:
    one = backend(name)
    one.load(bundle, "npu-4t")
    return one


def images(one: Backend, frames: list[Pixels]) -> list[NDArray[np.int64]]:
    return [one.upscale(frame).image.astype(np.int64) for frame in frames]


def test_the_cpu_takes_the_pictures_of_several_streams_apart(stacked: Bundle) -> None:
    npu, cpu = loaded("npu", stacked), loaded("onnxruntime", stacked)
    assert list(cpu.sizes) == list(npu.sizes) == [(2 * SIZE[0], SIZE[1])]
    both = np.concatenate([FRAMES[0], 255 - FRAMES[1]])
    (one,), (other,) = images(npu, [both]), images(cpu, [both])
    assert one.shape == other.shape == (4 * SIZE[0], 2 * SIZE[1], 3)
    assert np.abs(one - other).max() <= 1
    seen = [one.observe(both) for one in (npu, cpu)]
    assert seen[0].features.shape == seen[1].features.shape
    assert np.abs(seen[0].features.astype(int) - seen[1].features).max() <= 1
    assert np.abs(seen[0].embedding - seen[1].embedding).max() < 0.012


def test_the_cpu_keeps_what_the_net_keeps(recurrent: Bundle) -> None:
    npu, cpu = loaded("npu", recurrent), loaded("onnxruntime", recurrent)
    results = [images(one, FRAMES) for one in (npu, cpu)]
    assert max(np.abs(one - other).max() for one, other in zip(*results, strict=True)) <= 1


@pytest.mark.parametrize("name", ["npu", "onnxruntime"])
def test_a_new_stream_is_as_the_first_one(recurrent: Bundle, name: str) -> None:
    one = loaded(name, recurrent)
    first = images(one, FRAMES[:3])
    assert not np.array_equal(images(one, FRAMES[:1])[0], first[0]), "the net looks at the frame before"
    assert isinstance(one, StreamBackend)
    one.reset()
    assert all(map(np.array_equal, images(one, FRAMES[:3]), first))


@pytest.mark.parametrize("name", ["npu", "onnxruntime"])
def test_another_size_and_another_bundle_begin_anew(recurrent: Bundle, name: str) -> None:
    one = loaded(name, recurrent)
    (first,) = images(one, FRAMES[:1])
    images(one, [picture(32, 48)])
    assert np.array_equal(images(one, FRAMES[:1])[0], first)
    one.load(recurrent, "npu-4t")
    assert np.array_equal(images(one, FRAMES[:1])[0], first)


class Sometimes(NpuBackend):
    """Fails at the frames that are told."""

    fails: range = range(0)
    turn = 0

    def upscale(self, frame: Pixels) -> Upscaled:
        self.turn += 1
        if self.turn - 1 in self.fails:
            raise DriverError("no answer", "test", "none")
        return super().upscale(frame)


def runner(bundle: Bundle, fails: range = range(0)) -> Runner:
    primary = Sometimes(BackendOptions())
    primary.fails = fails
    one = Runner(primary, backend("onnxruntime"), HandClock())
    one.load(bundle, "npu-4t")
    return one


def served(one: Runner, frames: list[Pixels]) -> list[Pixels]:
    results = [one.upscale(frame).result for frame in frames]
    return [result.image for result in results if result is not None]


def test_a_runner_begins_a_stream_on_every_backend(recurrent: Bundle) -> None:
    one = runner(recurrent)
    first = served(one, FRAMES[:3])
    one.begin()
    assert all(map(np.array_equal, served(one, FRAMES[:3]), first))


def test_one_missed_frame_leaves_the_states_of_the_device_and_more_begin_anew(recurrent: Bundle) -> None:
    alone = images(loaded("npu", recurrent), [FRAMES[0], FRAMES[2]])
    one = runner(recurrent, fails=range(1, 2))
    assert [one.upscale(frame).choice for frame in FRAMES[:2]] == [Choice.PRIMARY, Choice.FALLBACK]
    assert np.array_equal(served(one, FRAMES[2:3])[0], alone[1])

    (first,) = images(loaded("npu", recurrent), [FRAMES[3]])
    one = runner(recurrent, fails=range(1, 3))
    assert np.array_equal(served(one, FRAMES[:4])[3], first)


def test_the_cpu_that_takes_over_sees_no_states_of_long_ago(recurrent: Bundle) -> None:
    (first,) = images(loaded("onnxruntime", recurrent), [FRAMES[4]])
    one = runner(recurrent, fails=range(0, 5, 4))
    served(one, FRAMES[:4])
    result = one.upscale(FRAMES[4])
    assert result.choice is Choice.FALLBACK
    assert result.result is not None
    assert np.array_equal(result.result.image, first)
