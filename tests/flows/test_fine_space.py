"""Networks at the frame's own resolution: slices, inheritance, files, and the same numbers on every engine."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from compiler.driver import compile_program
from contracts.lab import LabClient
from flows.inference import Stream, cpu_session
from flows.quant.calibrate import calibrate
from flows.quant.export import agreement, export_vsr
from flows.quant.networks import QuantVsrNet
from flows.search.genome import Genome
from flows.search.table import measure_table
from flows.search.widen import contains
from flows.tasks.vsr.architecture import FINE_SPACE, Architecture, Space, Stage
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.weights import load_net, save_net

LAB = (sys.executable, "-m", "edge_agent.lab")
SMALL = FINE_SPACE.network(16, (Stage(1, 16), Stage(0, 8), Stage(1, 24)))
COARSE = Architecture(16, SMALL.stages)


def _moved(net: VsrNet, seed: int) -> VsrNet:
    torch.manual_seed(seed)
    with torch.no_grad():
        for value in net.parameters():
            value.add_(0.05 * torch.randn_like(value))
    return net


def _frames(seed: int, count: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 48, 3), np.uint8)


def test_it_has_a_point_head_no_packing_and_a_relu_behind_every_sum() -> None:
    net = VsrNet(SMALL)
    assert net.head.weight.shape == (16, 3, 1, 1)
    assert net.tail.weight.shape == (12, 16, 3, 3)
    assert sum(value.numel() for value in net.parameters()) == SMALL.parameters()
    assert SMALL.macs(20, 30) == 600 * sum(
        value.numel() for name, value in net.named_parameters() if name.endswith("weight")
    )
    features: list[torch.Tensor] = []
    for block in net.blocks:
        block.register_forward_hook(lambda _module, _given, made: features.append(made))
    assert _moved(net, 1)(torch.rand(1, 3, 10, 12)).shape == (1, 3, 20, 24)
    assert all(float(made.detach().min()) >= 0 for made in features)


def test_it_keeps_no_history() -> None:
    with pytest.raises(ValueError, match="keeps no history"):
        Architecture(16, SMALL.stages, 8, True)


def test_text_and_files_keep_the_kind(tmp_path: Path) -> None:
    assert Architecture.from_json(SMALL.to_json()) == SMALL
    assert Architecture.from_json(COARSE.to_json()) == COARSE
    assert "fine" not in COARSE.to_json()
    supernet = Supernet(Space(trunks=(8,), depths=(0, 1), mids=(8, 16), stages=2, fine=True))
    save_supernet(supernet, tmp_path / "s.npz")
    assert load_supernet(tmp_path / "s.npz").space == supernet.space
    net = load_net(save_net(VsrNet(SMALL)))
    assert net.architecture == SMALL


def test_a_slice_computes_what_its_copy_computes() -> None:
    torch.manual_seed(2)
    supernet, random = Supernet(FINE_SPACE), np.random.default_rng(3)
    x = torch.rand(2, 3, 12, 16)
    for _ in range(5):
        one = FINE_SPACE.sample(random)
        assert one.fine
        assert FINE_SPACE.contains(one)
        assert torch.equal(supernet(x, one), supernet.extract(one)(x))
    with pytest.raises(ValueError, match="not in the supernet's space"):
        supernet.extract(COARSE)


def test_wider_and_deeper_networks_begin_as_what_they_inherit() -> None:
    parent, x = _moved(VsrNet(SMALL), 4), torch.rand(1, 3, 12, 16)
    wider = FINE_SPACE.network(16, (Stage(1, 32), Stage(1, 8), Stage(1, 32)))
    assert contains(wider, SMALL)
    assert not contains(wider, COARSE)
    assert torch.allclose(inherit(parent, wider)(x), parent(x), atol=1e-6)
    with pytest.raises(ValueError, match="resolution must agree"):
        inherit(parent, COARSE)


def test_genes_give_networks_of_the_space_only() -> None:
    genome = Genome(FINE_SPACE, SMALL, (0, 2))
    assert all(FINE_SPACE.contains(genome.decode(row.astype(np.int64))) for row in genome.rows())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_torch_onnxruntime_and_the_emulated_device_agree(seed: int) -> None:
    network = QuantVsrNet(_moved(VsrNet(SMALL), seed))
    frames = _frames(seed)
    calibrate(network, [torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0])
    model = export_vsr(network)
    found = agreement(network, model, frames)
    assert (found.max_lsb, found.float_share <= 0.02) == (0, True)
    with LabClient([*LAB, "--device-class", "npu-2t"]) as lab:
        lab.load_program(compile_program(model, "npu-2t", ((32, 48),))[0], "fine")
        made = lab.run("fine", frames).outputs["y"]
    stream = Stream(cpu_session(model))
    for frame, output in zip(frames, made, strict=True):
        x = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], np.float32) / np.float32(255.0)
        wanted = np.rint(stream.next(x)[0].transpose(1, 2, 0) * 255.0).astype(np.uint8)
        assert np.array_equal(output, wanted)


def test_the_operator_table_predicts_whole_networks() -> None:
    space = Space(trunks=(16,), depths=(0, 1), mids=(16, 32), stages=2, fine=True)
    table = measure_table(space, (16,), ("npu-4t",), ((48, 64),), LAB)
    for stages in ((Stage(1, 32), Stage(1, 16)), (Stage(1, 16), Stage(1, 16)), (Stage(1, 32), Stage(1, 32))):
        network = QuantVsrNet(VsrNet(space.network(16, stages)))
        calibrate(network, [torch.rand(1, 3, 32, 32)])
        with LabClient([*LAB, "--device-class", "npu-4t"]) as lab:
            lab.load_program(compile_program(export_vsr(network), "npu-4t", ((48, 64),))[0], "whole")
            measured = 1e3 * float(np.median(lab.run("whole", np.zeros((4, 48, 64, 3), np.uint8)).latency_ms))
        predicted = table.latency_us(network.architecture, "npu-4t", "48x64")
        assert abs(predicted / measured - 1) <= 0.05
