"""Where training runs. torch's `meta` device stands for a GPU, and refuses to mix with the CPU as one does."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.errors import TrainingError
from flows.quant.networks import QuantVsrNet
from flows.tasks import device as devices
from flows.tasks.batches import autocast
from flows.tasks.device import CPU, VARIABLE, on_training_device, training_device
from flows.tasks.training import Budget, Loop, parameters_of
from flows.tasks.vsr.architecture import HAND_MADE, Space
from flows.tasks.vsr.branches import branch
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.perception import Perceiver, Perception
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.train import TrainSettings, mixed_batch, relative_loss

META = torch.device("meta")


@pytest.fixture
def pairs() -> PairSet:
    high = np.random.default_rng(1).integers(0, 256, (3, 64, 64, 3), np.uint8)
    return PairSet((Pair("noise", NORMAL, high[:, ::2, ::2].copy(), high),))


@pytest.mark.parametrize("text", ["", "auto", " AUTO "])
def test_it_is_the_cpu_where_there_is_no_gpu(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert training_device() == CPU


def test_it_is_the_gpu_where_there_is_one_unless_the_cpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for text, wanted in (("auto", "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")):
        monkeypatch.setenv(VARIABLE, text)
        assert training_device() == torch.device(wanted)
    monkeypatch.setenv(VARIABLE, "cuda:2")
    with pytest.raises(TrainingError, match="sees 2 GPUs here"):
        training_device()


@pytest.mark.parametrize("text", ["gpu", "meta", "mps", "cuda:x"])
def test_a_device_that_is_none_is_named_with_what_would_be_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(TrainingError, match=f"{VARIABLE}='{text}' names no device; give auto, cpu, cuda"):
        training_device()


def test_modules_come_back_to_the_cpu_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places: list[str] = []

        def to(self, place: torch.device) -> Watched:  # type: ignore[override]  # a spy
            self.places.append(str(place))
            return self

    monkeypatch.setattr(devices, "training_device", lambda: torch.device("cuda"))
    watched = Watched()
    with pytest.raises(ValueError, match="broken"), on_training_device(watched):
        raise ValueError("broken")
    assert watched.places == ["cuda", "cpu"]


def test_a_gpu_keeps_all_bits_of_float32_while_it_trains() -> None:
    before = torch.backends.cudnn.allow_tf32
    with suppress(ValueError), on_training_device():
        during = torch.backends.cudnn.allow_tf32
        raise ValueError("broken")
    assert (during, torch.backends.cudnn.allow_tf32) == (False, before)


def test_every_part_of_a_step_lies_on_the_device(pairs: PairSet) -> None:
    asked = Perception(temporal=0.1, moments=0.1, adversarial=0.1, adversarial_from=0.0)
    settings = TrainSettings(batch=4, patch=24, frames=2, perception=asked)
    random = np.random.default_rng(2)
    low, high, level = mixed_batch(pairs, pairs, settings, random, META)
    assert {one.device.type for one in (low, high, level)} == {"meta"}
    space = Space(trunks=(8, 16), depths=(0, 1), mids=(8,), stages=2)
    supernet = Supernet(space)
    branch(supernet)
    for net in (VsrNet(HAND_MADE), supernet, QuantVsrNet(VsrNet(HAND_MADE)).train()):
        net.to(META)
        with autocast(CPU):
            output = net(low)
        loss = relative_loss(output, high, level) + Perceiver(asked, 1, 2, META).loss(output, high, level, 1.0)
        assert loss.device == META
    assert supernet(low, space.sample(random)).device == META
    with pytest.raises((RuntimeError, NotImplementedError)):
        relative_loss(output, high.new_zeros(high.shape, device=CPU), level)  # the stand-in does refuse


def test_a_budget_on_a_gpu_counts_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Linear(2, 1)

    def loss_of(_step: int, _share: float) -> torch.Tensor:
        time.sleep(0.02)  # the thread waits for the GPU
        return net(torch.ones(1, 2)).square().sum()

    loop = Loop(parameters_of(net), Budget(seconds=0.2, wall_seconds=60.0))
    monkeypatch.setattr(Loop, "_device", property(lambda _self: torch.device("cuda")))
    loop.run(loss_of)
    assert 1 <= loop.step <= 10
    assert loop.cpu_seconds >= 0.2
