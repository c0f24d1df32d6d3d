"""Network, supernet, training and metrics of the x2 task."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.tasks.training import Budget, Loop, TrainingError
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture, Space, Stage
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.metrics import evaluate, flicker_of, psnr_rgb
from flows.tasks.vsr.net import VsrNet, anchor, space_to_depth
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.train import TrainSettings, finetune, train_net, train_supernet
from flows.tasks.vsr.weights import load_net, save_net

TINY = Space(trunks=(4, 8), depths=(0, 1, 2), mids=(4, 8), kernels=(3, 5), stages=2)
SMALL = TrainSettings(batch=4, patch=16)


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:64, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))


def _onnx(op: str, shape: list[int], out: list[int], **attributes: int | str) -> ort.InferenceSession:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_space_to_depth_has_onnx_channel_order() -> None:
    x = torch.arange(2 * 3 * 4 * 6, dtype=torch.float32).reshape(2, 3, 4, 6)
    session = _onnx("SpaceToDepth", [2, 3, 4, 6], [2, 12, 2, 3], blocksize=2)
    assert np.array_equal(space_to_depth(x).numpy(), session.run(None, {"x": x.numpy()})[0])


def test_pixel_shuffle_is_depth_to_space_crd() -> None:
    x = torch.arange(48 * 6, dtype=torch.float32).reshape(1, 48, 2, 3)
    session = _onnx("DepthToSpace", [1, 48, 2, 3], [1, 3, 8, 12], blocksize=4, mode="CRD")
    assert np.array_equal(torch.nn.functional.pixel_shuffle(x, 4).numpy(), session.run(None, {"x": x.numpy()})[0])


def test_network_without_weights_is_the_nearest_anchor() -> None:
    net = VsrNet(HAND_MADE)
    torch.nn.init.zeros_(net.tail.weight)
    x = torch.rand(1, 3, 8, 12)
    assert torch.equal(net(x), anchor(x))


def test_extracted_network_equals_its_slice_bit_for_bit() -> None:
    supernet, random = Supernet(TINY), np.random.default_rng(1)
    x = torch.rand(1, 3, 16, 16)
    for _ in range(6):
        architecture = TINY.sample(random)
        assert torch.equal(supernet.extract(architecture)(x), supernet(x, architecture))


def test_sorting_channels_changes_no_output_and_puts_the_strong_first() -> None:
    supernet = Supernet(TINY)
    x = torch.rand(1, 3, 16, 16)
    before = supernet(x)
    supernet.sort_channels()
    assert torch.allclose(before, supernet(x), atol=1e-6)
    block = supernet.full.blocks[0]
    strength = block.expand.weight.abs().sum((1, 2, 3)) * block.project.weight.abs().sum((0, 2, 3))
    assert bool((strength.diff() <= 1e-6).all())


def test_architecture_outside_the_space_is_refused() -> None:
    with pytest.raises(ValueError, match="not in the supernet's space"):
        Supernet(TINY).extract(Architecture(4, (Stage(1, 5), Stage(1, 4))))


def test_hand_made_network_is_a_member_of_the_default_space() -> None:
    assert DEFAULT_SPACE.contains(HAND_MADE)
    assert DEFAULT_SPACE.contains(DEFAULT_SPACE.smallest)
    assert DEFAULT_SPACE.contains(DEFAULT_SPACE.largest)


def test_architecture_json_round_trip_and_counts() -> None:
    assert Architecture.from_json(HAND_MADE.to_json()) == HAND_MADE
    assert HAND_MADE.parameters() == sum(p.numel() for p in VsrNet(HAND_MADE).parameters())
    assert HAND_MADE.macs(72, 88) == 36 * 44 * 9 * (16 * 60 + 4 * 2 * 16 * 8)


def test_supernet_file_round_trip(tmp_path: Path) -> None:
    supernet = Supernet(TINY)
    first = save_supernet(supernet, tmp_path / "a.npz")
    stored = load_supernet(tmp_path / "a.npz")
    assert stored.space == TINY
    assert save_supernet(stored, tmp_path / "b.npz") == first


def test_float_weights_round_trip() -> None:
    net = VsrNet(HAND_MADE)
    again = load_net(save_net(net))
    assert again.architecture == HAND_MADE
    assert save_net(again) == save_net(net)


@pytest.mark.parametrize("stages", [((2, 16), (1, 8), (2, 8)), ((2, 8, 5), (1, 48), (1, 8))])
def test_wider_or_deeper_heir_computes_the_same(stages: tuple[tuple[int, ...], ...]) -> None:
    parent = VsrNet(HAND_MADE)
    heir = inherit(parent, Architecture(16, tuple(Stage(*stage) for stage in stages)))
    x = torch.rand(1, 3, 16, 16)
    assert torch.allclose(parent(x), heir(x), atol=1e-5)


def test_heir_of_another_trunk_is_refused() -> None:
    with pytest.raises(ValueError, match="trunk, stages and resolution must agree"):
        inherit(VsrNet(HAND_MADE), Architecture(8, HAND_MADE.stages))


def test_training_beats_the_anchor_and_repeats_with_the_seed(pairs: PairSet) -> None:
    architecture = Architecture(8, (Stage(1, 8),))
    first, second = (train_net(architecture, pairs, Budget(steps=60), settings=SMALL) for _ in range(2))
    assert save_net(first) == save_net(second)
    assert evaluate(first, pairs).psnr_rgb > evaluate(anchor_module(), pairs).psnr_rgb + 1.0


def test_supernet_training_teaches_every_size(pairs: PairSet) -> None:
    space = Space(trunks=(8,), depths=(0, 1), mids=(4, 8), stages=2)
    supernet = train_supernet(pairs, Budget(steps=50), space=space, settings=SMALL)
    floor = evaluate(anchor_module(), pairs).psnr_rgb
    assert evaluate(supernet.extract(space.largest), pairs).psnr_rgb > floor + 0.5
    assert evaluate(supernet.extract(space.smallest), pairs).psnr_rgb > floor + 0.5


def test_interrupted_training_resumes_to_the_same_weights(pairs: PairSet, tmp_path: Path) -> None:
    architecture = Architecture(4, (Stage(1, 4),))
    whole = train_net(architecture, pairs, Budget(steps=40), settings=SMALL)

    class Killed(Exception):
        pass

    def kill(share: float, _what: str) -> None:
        if share >= 0.5 and path.exists():
            raise Killed

    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        train_net(architecture, pairs, Budget(steps=40), settings=SMALL, checkpoint=path, progress=kill)
    resumed = train_net(architecture, pairs, Budget(steps=40), settings=SMALL, checkpoint=path)
    assert save_net(resumed) == save_net(whole)


def test_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    loop = Loop({"w": weight}, Budget(steps=10), checkpoint=tmp_path / "run.pt")
    with pytest.raises(TrainingError, match="loss is nan at step 4"):
        loop.run(lambda step, _share: weight.sum() * (float("nan") if step == 4 else 1.0))
    assert bool(torch.isfinite(torch.load(tmp_path / "run.pt", weights_only=True)["parameters"]["w"]).all())


def test_checkpoint_of_another_network_is_refused(pairs: PairSet, tmp_path: Path) -> None:
    loop = Loop({"w": torch.nn.Parameter(torch.ones(1))}, Budget(steps=4), checkpoint=tmp_path / "run.pt")
    loop.run(lambda _step, _share: next(iter(loop.parameters.values())).sum())
    with pytest.raises(TrainingError, match="another network"):
        finetune(
            VsrNet(Architecture(4, (Stage(1, 4),))),
            pairs,
            pairs,
            Budget(steps=2),
            settings=SMALL,
            checkpoint=tmp_path / "run.pt",
        )


def test_fine_tuning_keeps_a_share_of_the_start(pairs: PairSet) -> None:
    start = train_net(Architecture(4, (Stage(1, 4),)), pairs, Budget(steps=5), settings=SMALL)
    before = start.tail.weight.detach().clone()
    free, kept = (
        finetune(copy.deepcopy(start), pairs, pairs, Budget(steps=10), settings=replace(SMALL, keep=keep)).tail.weight
        for keep in (0.0, 0.3)
    )
    assert torch.allclose(kept, 0.7 * free + 0.3 * before, atol=1e-6)


def test_budget_in_seconds_ends_the_run(pairs: PairSet) -> None:
    train_net(Architecture(4, (Stage(1, 4),)), pairs, Budget(seconds=0.2), settings=SMALL)


def test_psnr_and_flicker_of_known_errors() -> None:
    target = np.full((2, 16, 16, 3), 100, np.uint8)
    assert psnr_rgb(target + 5, target)[0] == pytest.approx(10 * np.log10(255**2 / 25), abs=1e-4)
    pumping = target.copy()
    pumping[1] += 4
    assert flicker_of(pumping, target) == pytest.approx(4.0)
    assert flicker_of(target[:1], target[:1]) == 0.0


def anchor_module() -> torch.nn.Module:
    class Nearest(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return anchor(x)

    return Nearest()
