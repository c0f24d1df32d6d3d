"""What users of other quantisers and search tools reported, one test for each behaviour that other tests do not name.

The page docs/reference/complaints-learning.md says which report each test answers.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from compiler.driver import compile_program
from compiler.errors import UnsupportedModel
from flows.inference import cpu_session
from flows.quant.calibrate import StreamingHistogram, calibrate, choose_grid
from flows.quant.export import Agreement, ExportError, agreement, encoding, export_vsr, proven_vsr
from flows.quant.lsq import ActivationQuantizer, QuantConv2d
from flows.quant.networks import QuantVsrNet
from flows.search.evolution import Evolution, evolve
from flows.search.table import OperatorTable
from flows.tasks.vsr.architecture import DEFAULT_SPACE, Architecture, Stage
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.weights import load_net

ARCHITECTURE = Architecture(8, (Stage(1, 8), Stage(1, 12)))
FRAMES = np.random.default_rng(0).integers(0, 256, (2, 48, 64, 3), dtype=np.uint8)


@pytest.fixture
def network() -> QuantVsrNet:
    torch.manual_seed(0)
    made = QuantVsrNet(VsrNet(ARCHITECTURE))
    calibrate(made, [_tensor(FRAMES)])
    return made


@pytest.fixture
def model(network: QuantVsrNet) -> onnx.ModelProto:
    return onnx.load_from_string(export_vsr(network))


def _tensor(frames: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def test_ao_4824_every_exported_scale_is_the_very_scale_of_training(
    network: QuantVsrNet, model: onnx.ModelProto
) -> None:
    stored = _constants(model)
    source = {"head": network.input_grid, "tail": network.blocks[-1].sum_grid}
    for name, grid in source.items():
        conv = getattr(network, name)
        np.testing.assert_array_equal(stored[f"{name}_weight_scale"], conv.weight_scale(grid.scale).detach().numpy())
        np.testing.assert_array_equal(stored[f"{name}_weight_q"], conv.weight_codes(grid.scale).detach().numpy())
    written = {float(value) for name, value in stored.items() if name.endswith("_scale") and value.ndim == 0}
    trained = {float(encoding(grid).scale) for grid in network.modules() if isinstance(grid, ActivationQuantizer)}
    assert written == trained


def test_pytorch_143497_fake_quantised_exported_and_integer_results_are_compared_three_ways(
    network: QuantVsrNet,
) -> None:
    made = export_vsr(network)
    network.train()
    with torch.inference_mode():
        fake = np.concatenate([np.rint(network(_tensor(FRAMES[i : i + 1])).numpy() * 255) for i in range(len(FRAMES))])
    found = agreement(network, made, FRAMES)
    levels = ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for level in levels:
        session = cpu_session(made, level)
        ran = np.concatenate(
            [
                np.rint(session.run(None, {"x": _tensor(FRAMES[i : i + 1]).contiguous().numpy()})[0] * 255)
                for i in range(len(FRAMES))
            ]
        )
        gaps = np.abs(ran - fake)
        assert gaps.max() <= 1
        assert (gaps > 0).mean() < 1e-3
    assert found.ok


def test_ort_23221_weights_are_dequantised_along_their_channels(model: onnx.ModelProto) -> None:
    stored = _constants(model)
    weights = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0].endswith("_weight_q")]
    assert len(weights) == 2 + 2 * ARCHITECTURE.depth
    for node in weights:
        assert [a.i for a in node.attribute if a.name == "axis"] == [0]
        assert stored[node.input[1]].shape == stored[node.input[0]].shape[:1]


def test_ort_24711_bias_scales_are_input_scale_times_weight_scale(model: onnx.ModelProto) -> None:
    stored = _constants(model)
    nodes = {output: node for node in model.graph.node for output in node.output}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    assert convs
    for conv in convs:
        given, weight, bias = (_dequantised(nodes, name) for name in conv.input)
        wanted = stored[given.input[1]].astype(np.float32) * stored[weight.input[1]]
        np.testing.assert_array_equal(stored[bias.input[1]], wanted)


def _dequantised(nodes: dict[str, onnx.NodeProto], name: str) -> onnx.NodeProto:
    node = nodes[name]
    while node.op_type != "DequantizeLinear":
        node = nodes[node.input[0]]
    return node


def test_ort_21000_a_dead_channel_keeps_a_scale_that_its_bias_fits(network: QuantVsrNet) -> None:
    with torch.no_grad():
        network.head.weight[0] = 0.0
        network.head.bias[0] = 4.0
        network.head.log_scale[0] = -60.0
    made, found = proven_vsr(network, FRAMES)
    stored = _constants(onnx.load_from_string(made))
    assert found.ok
    assert np.abs(stored["head_bias_q"].astype(np.int64)).max() <= 2**30
    scales = stored["head_weight_scale"]
    assert scales.min() >= 0.999e-3 * scales.max()


@pytest.mark.parametrize(
    ("found", "ok"),
    [
        (Agreement(1, 1e-3), True),
        (Agreement(2, 1e-6), False),
        (Agreement(1, 1.1e-3), False),
        (Agreement(1, 1e-3, 1, 2.1e-2), False),
    ],
)
def test_ort_32132_a_step_on_ties_is_allowed_rarely_and_two_steps_never(found: Agreement, ok: bool) -> None:
    assert found.ok is ok


def test_ort_25259_both_levels_of_optimisation_are_run_and_told(
    network: QuantVsrNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[ort.GraphOptimizationLevel] = []

    def session(model: bytes, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
        levels.append(level)
        return cpu_session(model, level)

    monkeypatch.setattr("flows.quant.export.cpu_session", session)
    found = agreement(network, export_vsr(network), FRAMES)
    assert levels == [ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL]
    assert {"max_lsb", "share", "float_lsb", "float_share"} == set(vars(found))


def test_ort_10571_a_percentile_that_would_ruin_a_tensor_is_not_taken() -> None:
    """A rare peak that carries the picture: clipping it costs far more than coarser steps."""
    histogram = StreamingHistogram()
    histogram.observe(torch.cat([torch.rand(99_800) * 0.5, torch.full((200,), 1.0)]))
    chosen = choose_grid(histogram)
    assert chosen.rule == "min-max"
    assert chosen.scale == pytest.approx(1.0 / 255, rel=1e-3)


def test_ort_21979_what_calibration_keeps_does_not_grow_with_frames() -> None:
    histogram = StreamingHistogram()
    sizes = set()
    for index in range(50):
        histogram.observe(torch.randn(10_000) * (1 + index))
        sizes.add(len(pickle.dumps(histogram.counts)) + len(vars(histogram)))
    assert len(sizes) == 1
    assert histogram.counts.sum() == 500_000


def test_aimet_4060_depth_to_space_has_the_same_encoding_before_and_after(model: onnx.ModelProto) -> None:
    stored = _constants(model)
    nodes = {output: node for node in model.graph.node for output in node.output}
    (shuffle,) = [node for node in model.graph.node if node.op_type == "DepthToSpace"]
    (behind,) = [node for node in model.graph.node if shuffle.output[0] in node.input]
    before = nodes[shuffle.input[0]]
    assert behind.op_type == "QuantizeLinear"
    for place in (1, 2):
        np.testing.assert_array_equal(stored[before.input[place]], stored[behind.input[place]])


def test_aimet_4071_every_tensor_has_its_encoding_or_the_export_fails(
    network: QuantVsrNet, model: onnx.ModelProto
) -> None:
    nodes = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Add"):
            assert all(_dequantised(nodes, name).op_type == "DequantizeLinear" for name in node.input)
    with torch.no_grad():
        network.tail.bias[0] = float("nan")
    with pytest.raises(ExportError, match="not finite"):
        export_vsr(network)


def test_aimet_4071_a_grid_that_is_no_grid_fails_the_export(network: QuantVsrNet) -> None:
    with torch.no_grad():
        network.head_grid.log_scale.fill_(-1e4)
    with pytest.raises(ExportError, match=r"scale 0\.0"):
        export_vsr(network)


def test_aimet_4054_a_tensor_of_zeros_gets_a_grid_that_arithmetic_can_bear() -> None:
    torch.manual_seed(0)
    net = VsrNet(ARCHITECTURE)
    block = net.blocks[0]
    with torch.no_grad():
        net.head.weight.zero_()
        block.expand.bias.fill_(0.5)
    dead = QuantVsrNet(net)
    calibrate(dead, [_tensor(FRAMES)])
    assert float(dead.head_grid.scale.detach()) > 0.0
    made, found = proven_vsr(dead, FRAMES)
    stored = _constants(onnx.load_from_string(made))
    assert found.ok
    np.testing.assert_allclose(stored["block0_expand_bias_q"] * stored["block0_expand_bias_scale"], 0.5, rtol=1e-3)


def test_qnn_739_a_bias_that_convolutions_share_is_rounded_for_each_of_them(network: QuantVsrNet) -> None:
    with torch.no_grad():
        for block in network.blocks:
            block.project.bias.fill_(0.0375)
    stored = _constants(onnx.load_from_string(export_vsr(network)))
    for index in range(ARCHITECTURE.depth):
        codes, scale = stored[f"block{index}_project_bias_q"], stored[f"block{index}_project_bias_scale"]
        np.testing.assert_allclose(codes * scale, 0.0375, atol=float(scale.max()))
    assert not np.array_equal(stored["block0_project_bias_scale"], stored["block1_project_bias_scale"])


def test_openvino_439_pixel_shuffle_is_one_operator(model: onnx.ModelProto) -> None:
    operators = {node.op_type for node in model.graph.node}
    assert {"DepthToSpace", "SpaceToDepth"} <= operators
    assert not operators & {"Reshape", "Transpose"}


def test_lsqplus_12_a_scale_that_learning_drives_down_stays_positive(network: QuantVsrNet) -> None:
    learned = [
        value for name, value in network.named_parameters() if name.endswith("log_scale") and value.requires_grad
    ]
    optimiser = torch.optim.SGD(learned, 10.0)
    for _ in range(5):
        optimiser.zero_grad()
        torch.autograd.backward(torch.cat([value.flatten() for value in learned]).sum())
        optimiser.step()
    for module in network.modules():
        if isinstance(module, QuantConv2d):
            assert float(module.weight_scale(torch.tensor(1 / 255)).detach().min()) > 0.0
        elif isinstance(module, ActivationQuantizer):
            assert float(module.scale.detach()) > 0.0


def test_ofa_15_no_network_of_the_supernet_keeps_batch_statistics() -> None:
    norms = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
    for net in (Supernet(DEFAULT_SPACE), VsrNet(DEFAULT_SPACE.largest)):
        assert not [module for module in net.modules() if isinstance(module, norms)]
        assert not list(net.buffers())


def test_pymoo_794_a_search_with_the_same_seed_repeats_draw_for_draw() -> None:
    def judge(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([rows.sum(axis=1), (9.0 - rows).sum(axis=1)], axis=1), np.zeros((len(rows), 0))

    def rows(seed: int, noise: int) -> np.ndarray:
        np.random.seed(noise)  # whoever else uses the global generator must not matter
        box = np.zeros(6), np.full(6, 9.0)
        return evolve(*box, judge, Evolution(population=8, generations=4, seed=seed), integer=True).rows

    np.testing.assert_array_equal(rows(3, 1), rows(3, 2))
    assert not np.array_equal(rows(3, 1), rows(4, 1))


def test_nn_meter_131_tables_and_weights_are_plain_and_never_pickled(tmp_path: Path) -> None:
    table = OperatorTable((), {"targets": ["npu-4t"]})
    assert json.loads(table.to_json())["facts"] == {"targets": ["npu-4t"]}
    path = tmp_path / "weights.npz"
    with path.open("wb") as file:
        np.savez(file, architecture=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_net(path.read_bytes())


def test_opencv_27014_depth_to_space_without_a_block_is_named_and_refused(model: onnx.ModelProto) -> None:
    (shuffle,) = [node for node in model.graph.node if node.op_type == "DepthToSpace"]
    kept = [attribute for attribute in shuffle.attribute if attribute.name != "blocksize"]
    del shuffle.attribute[:]
    shuffle.attribute.extend(kept)
    with pytest.raises(UnsupportedModel, match="d2s: blocksize 0; use a blocksize of 1 to 16"):
        compile_program(model.SerializeToString(), "npu-4t", [(16, 24)])
