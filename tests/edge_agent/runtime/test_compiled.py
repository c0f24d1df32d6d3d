"""What the compiler makes, the emulated NPU runs: pixels equal the golden and ONNX Runtime's integers, bit
for bit.
"""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from compiler import golden
from compiler.driver import compile_bundle, compile_program
from compiler.importer import build_graph, read_source
from compiler.ir import Add, Clip, Conv, Graph, Move, flat
from compiler.options import CompileOptions
from compiler.passes.constant_folding import ConstantFolding
from compiler.timing import estimate
from contracts.bundle import Bundle
from contracts.lab import LabClient
from contracts.npu.program import Program
from contracts.npu.spec import load_spec
from edge_agent.runtime.backend import BackendOptions, FrameUnfit
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.checking import check_profile
from edge_agent.runtime.registry import backend
from flows.inference import cpu_session
from tests.support.models import quality_qdq, single_conv_qdq, vsr_qdq

Image = NDArray[np.uint8]
MODELS = {
    "small": (lambda: vsr_qdq(8, 12, 1, 3, seed=1), (16, 24)),
    "mixed kernels": (lambda: vsr_qdq(16, 20, 3, [3, 5, 3], seed=2), (20, 28)),
    "odd channels": (lambda: vsr_qdq(13, 7, 2, 5, seed=3), (24, 16)),
    "deep shuffle": (lambda: vsr_qdq(24, 24, 2, 3, seed=4, space_to_depth=4), (32, 48)),
    "quality": (lambda: quality_qdq(5), (72, 88)),
    "quality, odd size": (lambda: quality_qdq(6), (37, 51)),
    "one convolution": (lambda: single_conv_qdq(9, 11, 5, seed=7), (13, 17)),
    "one strided convolution": (lambda: single_conv_qdq(16, 8, 3, seed=8, stride=2, relu=False), (14, 15)),
}


@lru_cache
def model(name: str) -> bytes:
    return MODELS[name][0]()


def imported(name: str) -> Graph:
    source = ConstantFolding().run(read_source(model(name))).graph
    return build_graph(source, *MODELS[name][1])


@pytest.mark.parametrize("target", ["npu-4t", "npu-2t"])
@pytest.mark.parametrize("name", MODELS)
def test_the_device_equals_the_golden_and_onnx_runtime(name: str, target: str) -> None:
    data, _ = compile_program(model(name), target, [MODELS[name][1]])
    program = Program.open(data)
    device = NpuDevice(target)
    loaded = device.load(program)
    graph = imported(name)
    random = np.random.default_rng(0)
    for _ in range(2):
        frame = random.integers(0, 256, program.profiles[0].input, dtype=np.uint8)
        result = device.infer(loaded, frame).outputs
        expected = golden.run(graph, frame)
        assert set(result) == set(expected)
        for output, image in expected.items():
            assert np.array_equal(result[output], image)
            assert np.array_equal(integer_onnxruntime(graph, frame)[output], image)
            assert len(np.unique(image)) > 20


@pytest.mark.parametrize("name", MODELS)
def test_the_checking_mode_finds_nothing(name: str) -> None:
    program = Program.open(compile_program(model(name), "npu-2t", [MODELS[name][1]])[0])
    assert check_profile(program, 0, load_spec("npu-2t")) == []


@pytest.mark.parametrize("array", ["ideal", "u85-like"])
@pytest.mark.parametrize("name", MODELS)
def test_simulated_time_agrees_with_the_compilers_estimate(name: str, array: str) -> None:
    program = Program.open(compile_program(model(name), "npu-4t", [MODELS[name][1]])[0])
    device = NpuDevice("npu-4t", array_model=array)
    simulated = device.nominal_time(device.load(program), 0, array)
    commands = program.commands(0)[program.profiles[0].n_prologue :]
    guessed = estimate(commands, program.names, device.spec, device.spec.array_model(array))
    assert simulated.total_ns == pytest.approx(guessed.total_ns, rel=1e-9)
    assert simulated.ddr_bytes == guessed.ddr_bytes == program.profiles[0].ddr_bytes
    assert len(simulated.kernels) == len(guessed.kernels)


@pytest.mark.parametrize("rows", [None, 2])
def test_several_streams_in_one_frame_are_frames_of_their_own(rows: int | None) -> None:
    onnx, size = vsr_qdq(13, 7, 2, 5, seed=3), (24, 16)
    options = CompileOptions(streams=3, stripe_rows=rows)
    programs = [Program.open(compile_program(onnx, "npu-2t", [size], one)[0]) for one in (options, CompileOptions())]
    device = NpuDevice("npu-2t")
    together, alone = (device.load(program, bind_all=True) for program in programs)
    frames = np.random.default_rng(0).integers(0, 256, (3, *size, 3), dtype=np.uint8)
    batch = device.infer(together, frames.reshape(3 * size[0], size[1], 3)).outputs["y"]
    single = [device.infer(alone, frame).outputs["y"] for frame in frames]
    assert np.array_equal(batch, np.concatenate(single))
    assert check_profile(programs[0], 0, device.spec) == []


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("bundle") / "a.elb"
    sizes = [(72, 88), (36, 44)]
    targets = ["npu-4t", "npu-2t"]
    compile_bundle(vsr_qdq(16, 16, 2, 3), quality_qdq(), None, targets, sizes, {}, path, "1", 1)
    return Bundle.open(path)


def picture(height: int = 72, width: int = 88, seed: int = 0) -> Image:
    """Return a smooth frame with some noise, as video has."""
    random = np.random.default_rng(seed)
    rows, cols = np.mgrid[0:height, 0:width]
    waves = [127 + 90 * np.sin(rows / 9 + channel) * np.cos(cols / 13) for channel in range(3)]
    return np.clip(np.stack(waves, -1) + random.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)


def test_the_cpu_backend_is_within_one_lsb_of_the_npu(bundle: Bundle) -> None:
    npu, cpu = backend("npu"), backend("onnxruntime")
    for one in (npu, cpu):
        one.load(bundle, "npu-4t")
        assert list(one.sizes) == [(72, 88), (36, 44)]
    for frame in (picture(), picture(36, 44, 1)):
        images = [one.upscale(frame).image.astype(int) for one in (npu, cpu)]
        assert images[0].shape == (2 * frame.shape[0], 2 * frame.shape[1], 3)
        assert np.abs(images[0] - images[1]).max() <= 1
        seen = [one.observe(frame) for one in (npu, cpu)]
        assert seen[0].features.shape[2] == 16
        assert np.abs(seen[0].features.astype(int) - seen[1].features).max() <= 1
        assert np.abs(seen[0].embedding - seen[1].embedding).max() < 0.012
        assert seen[0].embedding.shape == (256,)


def test_only_the_npu_tells_time_and_spans(bundle: Bundle) -> None:
    npu, cpu = backend("npu"), backend("onnxruntime")
    for one in (npu, cpu):
        one.load(bundle, "npu-2t")
    done = npu.upscale(picture())
    assert done.simulated_ms is not None
    assert 0.1 < done.simulated_ms < 5
    spans = done.spans()
    assert spans[0].start_ms == 0.0
    assert sum(float(span.detail["busy_ms"]) for span in spans) == pytest.approx(done.simulated_ms, rel=0.05)
    assert cpu.upscale(picture()).simulated_ms is None


@pytest.mark.parametrize("name", ["npu", "onnxruntime"])
def test_a_frame_of_another_size_is_the_callers_error(bundle: Bundle, name: str) -> None:
    one = backend(name, BackendOptions(shared=True))
    one.load(bundle, "npu-4t")
    with pytest.raises(FrameUnfit, match="72, 88"):
        one.upscale(picture(40, 40))


def test_a_lab_measures_a_bundle_and_checks_its_plan(bundle: Bundle) -> None:
    with LabClient([sys.executable, "-m", "edge_agent.lab", "--device-class", "npu-2t"]) as lab:
        lab.load(bundle.path)
        frames = np.stack([picture(seed=seed) for seed in range(3)])
        result = lab.run("model", frames)
        assert result.outputs["y"].shape == (3, 144, 176, 3)
        assert lab.run("quality", frames).outputs["embedding"].shape[-1] == 256
        assert lab.check("model") == []
        assert lab.check("quality") == []


def integer_onnxruntime(graph: Graph, frame: Image) -> dict[str, Image]:
    """Run the imported graph with ONNX Runtime's integer operators, one session for each operator."""
    images = {graph.input: frame}
    for operator in flat(graph.operators):
        if isinstance(operator, Conv):
            images[operator.result] = _convolution(graph, operator, images[operator.source])
        elif isinstance(operator, Add):
            images[operator.result] = _addition(graph, operator, images)
        elif isinstance(operator, Clip):
            clipped = np.clip(images[operator.source], operator.clamp.low, operator.clamp.high)
            images[operator.result] = clipped
        elif isinstance(operator, Move):
            seen = golden.seen(images[operator.source], operator.read)
            images[operator.result] = golden.laid(seen, operator.write)
    return {name: images[value] for name, value in graph.outputs}


def _convolution(graph: Graph, conv: Conv, source: Image) -> Image:
    value = graph.values[conv.source]
    top, bottom, left, right = conv.pads
    constants = {
        "xs": np.float32(value.scale), "xz": np.uint8(value.zero_point), "w": conv.weights,
        "ws": conv.weight_scale, "wz": conv.weight_zero_point,
        "ys": np.float32(conv.scale), "yz": np.uint8(conv.zero_point), "b": conv.bias,
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", *constants], ["y"], kernel_shape=conv.kernel, strides=conv.strides,
        pads=[top, left, bottom, right], dilations=conv.dilations, group=conv.groups,
    )  # fmt: skip
    planes = source.transpose(2, 0, 1)[None]
    result = _run(node, constants, {"x": planes})[0].transpose(1, 2, 0)
    return np.clip(result, conv.clamp.low, conv.clamp.high)


def _addition(graph: Graph, add: Add, images: dict[str, Image]) -> Image:
    values = {"a": graph.values[add.a], "b": graph.values[add.b], "c": graph.values[add.result]}
    constants: dict[str, np.generic] = {}
    for side, value in values.items():
        constants[f"{side}s"], constants[f"{side}z"] = np.float32(value.scale), np.uint8(value.zero_point)
    arguments = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    node = helper.make_node("QLinearAdd", arguments, ["y"], domain="com.microsoft")
    a, b = golden.seen(images[add.a], add.a_view), golden.seen(images[add.b], add.b_view)
    return np.clip(_run(node, constants, {"a": a, "b": b}), add.clamp.low, add.clamp.high)


def _run(node: object, constants: dict[str, np.generic], inputs: dict[str, Image]) -> Image:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    session = cpu_session(data)
    return session.run(None, {name: np.ascontiguousarray(array) for name, array in inputs.items()})[0]
