"""Widths of one net: profiles of one program that share constants and are switched without loading anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler import golden
from compiler.driver import compile_bundle, read_model
from compiler.errors import BadProfile
from contracts.bundle import Bundle
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import vsr_qdq

SIZES = [(48, 64), (34, 46)]


def narrowed(wide: bytes, narrow: bytes) -> bytes:
    """`narrow` with the first channels of the wide model's constants."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(wide).graph.initializer}
    model = onnx.load_from_string(narrow)
    for tensor in model.graph.initializer:
        own = numpy_helper.to_array(tensor)
        first = known[tensor.name][tuple(slice(extent) for extent in own.shape)]
        tensor.CopyFrom(numpy_helper.from_array(first.copy().reshape(own.shape), tensor.name))
    return model.SerializeToString()


WIDE = vsr_qdq(blocks=2, mid=32, seed=4)
HALF = narrowed(WIDE, vsr_qdq(blocks=2, mid=16, seed=4))


def compiled(path: Path, widths: dict[str, bytes]) -> Program:
    compile_bundle(WIDE, None, None, ["npu-4t"], SIZES, {}, path, "1.0.0", 1, widths=widths)
    return Bundle.open(path).program("npu-4t", "model")


def test_each_width_gives_its_own_pixels(tmp_path: Path) -> None:
    program = compiled(tmp_path / "a.elb", {"0.5": HALF})
    assert [profile.name for profile in program.profiles] == ["48x64", "34x46", "48x64@0.5", "34x46@0.5"]
    device = NpuDevice("npu-4t", jitter=0.0)
    loaded = device.load(program, bind_all=True)
    for model, suffix in ((WIDE, ""), (HALF, "@0.5"), (WIDE, "")):
        for profile in read_model("model", model, SIZES).profiles:
            graph = profile.imported
            frame = np.random.default_rng(2).integers(0, 256, graph.values[graph.input].shape, dtype=np.uint8)
            outputs = device.infer(loaded, frame, f"{profile.name}{suffix}").outputs
            for name, image in golden.run(graph, frame).items():
                np.testing.assert_array_equal(outputs[name], image)


def test_a_narrower_width_reads_the_wider_ones_weights_in_place(tmp_path: Path) -> None:
    alone = compiled(tmp_path / "a.elb", {})
    both = compiled(tmp_path / "b.elb", {"0.5": HALF})
    assert both.constants.size < 1.1 * alone.constants.size
    rows = both.commands("48x64@0.5")["weights_row"]
    assert (rows > 0).any()


def test_every_profile_begins_with_the_same_prologue(tmp_path: Path) -> None:
    program = compiled(tmp_path / "a.elb", {"0.5": HALF})
    first = [program.commands(index)[: profile.n_prologue] for index, profile in enumerate(program.profiles)]
    assert all(part.tobytes() == first[0].tobytes() for part in first)


def test_a_width_that_needs_other_sizes_is_refused(tmp_path: Path) -> None:
    other = vsr_qdq(blocks=2, mid=16, seed=4, space_to_depth=4)
    with pytest.raises(BadProfile, match="divisible"):
        compiled(tmp_path / "a.elb", {"0.5": other})
    assert not (tmp_path / "a.elb").exists()
