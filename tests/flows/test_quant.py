"""Quantisation: gradients, grids, calibration, and exact agreement of the export with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice
from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.inference import cpu_session
from flows.quality.net import QualityNet
from flows.quant.calibrate import CalibrationError, StreamingHistogram, calibrate, choose_grid
from flows.quant.export import agreement, encoding, export_quality, export_vsr
from flows.quant.lsq import ActivationQuantizer, QuantConv2d
from flows.quant.networks import QuantQualityNet, QuantVsrNet
from flows.quant.qat import qat
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings

ARCHITECTURE = Architecture(8, (Stage(1, 8), Stage(1, 12, 5)))


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    y, x = np.mgrid[0:48, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 50 * np.cos(y[..., None] / 3.0)
    noise = np.random.default_rng(0).normal(0, 8, (4, 48, 64, 3))
    return np.clip(waves + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def pairs(frames: np.ndarray) -> PairSet:
    return PairSet((Pair("waves", NORMAL, shrink(frames, 2), frames),))


@pytest.fixture
def network(frames: np.ndarray) -> QuantVsrNet:
    torch.manual_seed(0)
    quantised = QuantVsrNet(VsrNet(ARCHITECTURE))
    calibrate(quantised, [_tensor(frames)])
    return quantised


def _tensor(frames: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0


def test_fake_quantised_values_lie_on_the_grid() -> None:
    grid = ActivationQuantizer(0.1, 20)
    codes = grid(torch.randn(100)) / grid.scale + 20
    assert torch.allclose(codes, codes.round(), atol=1e-4)
    assert codes.min() >= 0
    assert codes.max() <= 255


def test_scale_gradient_is_that_of_learned_step_size() -> None:
    grid = ActivationQuantizer(0.1, 0)
    x = torch.tensor([0.234, 40.0])
    grid(x).sum().backward()
    inside, outside = round(2.34) - 2.34, 255.0
    assert grid.log_scale.grad is not None
    assert float(grid.log_scale.grad) == pytest.approx((inside + outside) * 0.1, rel=1e-4)


def test_scale_stays_positive_under_any_step() -> None:
    grid = ActivationQuantizer(0.1, 0)
    with torch.no_grad():
        grid.log_scale.sub_(50.0)
    assert float(grid.scale.detach()) > 0.0


def test_pinned_grid_is_never_learned_or_changed() -> None:
    grid = ActivationQuantizer(1 / 255, 128, pinned=True)
    assert not grid.log_scale.requires_grad
    with pytest.raises(ValueError, match="pinned"):
        grid.set_range(0.1, 0)


def test_bias_is_rounded_to_the_accumulator_grid() -> None:
    conv = QuantConv2d(nn.Conv2d(3, 4, 3, padding=1))
    scale = torch.tensor(1 / 255)
    y = conv(torch.zeros(1, 3, 8, 8), scale)[0, :, 4, 4]
    steps = (y / (scale * conv.weight_scale(scale))).detach()
    assert torch.allclose(steps, steps.round(), atol=1e-3)


def test_dead_channel_keeps_a_bias_that_fits_int32() -> None:
    plain = nn.Conv2d(3, 2, 3, padding=1)
    with torch.no_grad():
        plain.weight[1] = 0.0
        plain.bias[1] = 3.0
    conv, scale = QuantConv2d(plain), torch.tensor(1e-6)
    assert float(conv.bias_codes(scale).detach().abs().max()) <= 2**30
    stored = (conv.bias_codes(scale) * scale * conv.weight_scale(scale)).detach()
    assert float(stored[1]) == pytest.approx(3.0, rel=1e-3)


def test_histogram_widens_without_losing_counts() -> None:
    histogram = StreamingHistogram()
    histogram.observe(torch.rand(1000))
    histogram.observe(torch.full((10,), -9.0))
    assert histogram.counts.sum() == 1010
    assert (histogram.low, histogram.edge >= 9.0) == (-9.0, True)


def test_calibration_keeps_whichever_rule_rounds_better() -> None:
    spread, outlier = StreamingHistogram(), StreamingHistogram()
    spread.observe(torch.linspace(0, 1, 10_000))
    outlier.observe(torch.cat([torch.rand(1_000_000), torch.tensor([3.0])]))
    assert choose_grid(spread).scale == pytest.approx(1.0 / 255, rel=0.01)
    assert choose_grid(outlier).scale < 2.0 / 255


def test_tensor_that_is_never_reached_fails_calibration() -> None:
    with pytest.raises(CalibrationError, match="never reached"):
        calibrate(QuantVsrNet(VsrNet(ARCHITECTURE)), [])


def test_broken_network_fails_calibration(frames: np.ndarray) -> None:
    net = VsrNet(ARCHITECTURE)
    with torch.no_grad():
        net.head.weight.fill_(float("nan"))
    with pytest.raises(CalibrationError, match="not finite"):
        calibrate(QuantVsrNet(net), [_tensor(frames)])


def test_export_agrees_with_onnx_runtime_at_both_levels(network: QuantVsrNet, frames: np.ndarray) -> None:
    found = agreement(network, export_vsr(network), frames)
    assert found.ok, found


def test_disagreeing_model_is_noticed(network: QuantVsrNet, frames: np.ndarray) -> None:
    model = export_vsr(network)
    with torch.no_grad():
        network.tail.bias.add_(0.05)
    assert not agreement(network, model, frames).ok


def test_export_has_the_agreed_form(network: QuantVsrNet) -> None:
    model = onnx.load_from_string(export_vsr(network))
    ops = [node.op_type for node in model.graph.node]
    assert ops[:4] == ["QuantizeLinear", "DequantizeLinear", "SpaceToDepth", "QuantizeLinear"]
    assert ops.count("Conv") == 2 + 2 * ARCHITECTURE.depth
    first = [node.input[0] for node in model.graph.node if node.op_type == "Add"]
    assert first == ["block0_project_conv_dq", "block1_project_conv_dq", "d2s_dq"], "in the order that devices add"
    assert ops[-2:] == ["QuantizeLinear", "DequantizeLinear"]
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    pixel = np.float32(1 / 255)
    assert constants["x_dq_scale"] == constants["y_scale"] == constants["d2s_dq_scale"] == pixel
    assert constants["tail_conv_dq_zero"] == constants["d2s_dq_zero"] == 128
    assert constants["head_weight_q"].dtype == np.int8
    assert constants["head_bias_q"].dtype == np.int32


def test_onnx_runtime_runs_the_export_in_integers_throughout(network: QuantVsrNet, tmp_path: Path) -> None:
    """Scales must be scalars for that: with one element in a list additions stay in floats."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3  # it warns that such a file is for this machine only
    ort.InferenceSession(export_vsr(network), options, providers=["CPUExecutionProvider"])
    ops = Counter(node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node)
    assert (ops["QLinearAdd"], ops["Add"]) == (ARCHITECTURE.depth + 1, 0)
    assert (ops["QLinearConv"], ops["Conv"]) == (2 + 2 * ARCHITECTURE.depth, 0)


def test_a_device_gives_the_very_bytes_of_onnx_runtimes_integers(network: QuantVsrNet) -> None:
    model = export_vsr(network)
    frame = np.random.default_rng(1).integers(0, 256, (96, 128, 3), dtype=np.uint8)
    device = NpuDevice("npu-4t", jitter=0.0)
    image = device.infer(device.load(Program.open(compile_program(model, "npu-4t", [(96, 128)])[0])), frame).outputs[
        "y"
    ]
    session = cpu_session(model)
    x = frame.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255.0)
    expected = np.rint(session.run(None, {"x": x})[0][0].transpose(1, 2, 0) * 255.0).astype(np.uint8)
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("seed", range(12))
def test_a_twin_set_to_evaluation_is_integer_inference_to_the_last_bit(seed: int) -> None:
    """One tie that is rounded the other way in an early layer reaches hundreds of output pixels: none may be."""
    torch.manual_seed(seed)
    twin = QuantVsrNet(VsrNet(Architecture(16, (Stage(2, 16), Stage(1, 8), Stage(1, 16)))))
    noise = np.random.default_rng(seed).integers(0, 256, (2, 96, 128, 3), dtype=np.uint8)
    calibrate(twin, [_tensor(noise)])
    found = agreement(twin, export_vsr(twin), noise)
    assert (found.max_lsb, found.share) == (0, 0.0)


def test_export_is_deterministic(network: QuantVsrNet) -> None:
    assert export_vsr(network) == export_vsr(network)


def test_exported_scale_is_the_trained_scale(network: QuantVsrNet) -> None:
    model = onnx.load_from_string(export_vsr(network))
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}["head_relu_dq_scale"]
    assert stored == encoding(network.head_grid).scale


def test_quality_export_agrees_and_pins_features_to_the_pixel_grid(frames: np.ndarray) -> None:
    torch.manual_seed(0)
    network = QuantQualityNet(QualityNet())
    calibrate(network, [_tensor(frames)])
    model = export_quality(network)
    assert agreement(network, model, frames).ok
    names = [output.name for output in onnx.load_from_string(model).graph.output]
    assert names == ["features", "embedding"]
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load_from_string(model).graph.initializer}
    assert constants["features_scale"] == np.float32(1 / 255)


def test_training_with_quantisation_recovers_the_loss_of_rounding(pairs: PairSet) -> None:
    torch.manual_seed(0)
    net = VsrNet(Architecture(8, (Stage(1, 8),)))
    settings = TrainSettings(batch=4, patch=16, rate=5e-4)
    rounded = qat(net, pairs, None, None, settings=settings)
    trained = qat(net, pairs, None, Budget(steps=40), settings=settings)
    assert trained.agreement.ok
    assert evaluate(trained.model, pairs).psnr_rgb > evaluate(rounded.model, pairs).psnr_rgb
