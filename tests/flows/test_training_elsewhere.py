"""Every training as a whole on a stand-in for a GPU: same bytes as on the CPU, nothing left there, checkpoints that
change place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.quant.qat import QuantOptions, qat
from flows.quant.stages import StagePlan
from flows.search.adapt import adapt_supernet
from flows.tasks import device
from flows.tasks.device import CPU
from flows.tasks.training import Budget, Loop
from flows.tasks.vsr.architecture import Architecture, Space, Stage
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.perception import Perception
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.train import TrainSettings, finetune, train_net, train_supernet
from tests.support.elsewhere import ELSEWHERE, another_device

SMALL = TrainSettings(batch=4, patch=24)
CLOSE = TrainSettings(batch=2, patch=16)
TINY = Architecture(4, (Stage(1, 4),))
NET = Architecture(8, (Stage(1, 8, 5), Stage(1, 4)))
SPACE = Space(trunks=(8,), depths=(0, 1), mids=(4, 8), kernels=(3, 5), stages=2)
ASKED = Perception(temporal=0.3, moments=0.02, adversarial=0.005, adversarial_from=0.2)


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:96, 0:96]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each forward pass under autocast was; nothing is in bf16, which no stand-in for a GPU knows."""
    seen: list[str] = []

    def noted(place: torch.device) -> nullcontext[None]:
        seen.append(place.type)
        return nullcontext()

    for module in ("flows.tasks.vsr.train", "flows.search.adapt"):
        monkeypatch.setattr(f"{module}.autocast", noted)
    return seen


@contextmanager
def elsewhere() -> Iterator[None]:
    """Trainings that begin while this lasts run on the other device."""
    with pytest.MonkeyPatch.context() as patch, another_device() as other:
        patch.setattr(device, "training_device", lambda: other)
        yield


def _from_scratch(pairs: PairSet) -> nn.Module:
    return train_net(NET, pairs, Budget(steps=6), settings=SMALL)


def _asking(pairs: PairSet) -> nn.Module:
    torch.manual_seed(0)
    settings = replace(SMALL, keep=0.3, perception=ASKED)
    return finetune(VsrNet(NET), pairs, pairs, Budget(steps=6), settings=settings)


def _with_history(pairs: PairSet) -> nn.Module:
    return train_net(replace(NET, history=4), pairs, Budget(steps=3), settings=replace(SMALL, batch=6, frames=3))


def _supernet(pairs: PairSet) -> nn.Module:
    return train_supernet(pairs, Budget(steps=8), space=SPACE, settings=replace(SMALL, branches=True))


def _adapted(pairs: PairSet) -> nn.Module:
    torch.manual_seed(0)
    inherited = Architecture(8, (Stage(1, 4), Stage(1, 4)))
    return adapt_supernet(Supernet(SPACE), inherited, (0,), pairs, pairs, Budget(steps=4), SMALL)


def _quantised(pairs: PairSet, plan: StagePlan | None = None) -> nn.Module:
    torch.manual_seed(0)
    options = QuantOptions(plan=plan, teacher=0.5)
    return qat(VsrNet(TINY), pairs, pairs, Budget(steps=6), settings=CLOSE, options=options).network


def _in_stages(pairs: PairSet) -> nn.Module:
    return _quantised(pairs, StagePlan(0.4, 0.3, 0.3, zero_points=True))


ALL = (_from_scratch, _asking, _with_history, _supernet, _adapted, _quantised, _in_stages)


def _bytes(network: nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in network.state_dict().items()}


@pytest.mark.parametrize("made", ALL)
def test_a_training_elsewhere_learns_the_same_and_leaves_nothing_there(
    made: Callable[[PairSet], nn.Module], pairs: PairSet, places: list[str]
) -> None:
    expected, on_cpu = _bytes(made(pairs)), len(places)
    losses: list[str] = []
    step = Loop._one_step

    def spied(loop: Loop, loss_of: Callable[[int, float], Tensor], share: float) -> float | None:
        def told(number: int, spent: float) -> Tensor:
            loss = loss_of(number, spent)
            losses.append(loss.device.type)
            return loss

        return step(loop, told, share)

    with elsewhere(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_one_step", spied)
        network = made(pairs)
        assert {value.device for value in network.state_dict().values()} == {CPU}
        assert _bytes(network) == expected
    assert set(losses) == {"meta"}
    assert set(places[:on_cpu]) <= {"cpu"}
    assert set(places[on_cpu:]) <= {"meta"}


def test_the_stand_in_refuses_to_mix_devices() -> None:
    with another_device() as other, pytest.raises(RuntimeError, match="tensors on two devices"):
        torch.ones(2, device=other).add(torch.ones(2))


@pytest.mark.parametrize("first", ["cpu", "elsewhere"])
@pytest.mark.parametrize("made", ["asking", "stages"])
def test_a_checkpoint_of_one_device_goes_on_on_the_other(
    first: str, made: str, pairs: PairSet, places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(SMALL, perception=ASKED)

    def stop(share: float, _what: str) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    def learn(path: Path, progress: Callable[[float, str], None] | None = None) -> dict[str, bytes]:
        torch.manual_seed(0)
        budget = Budget(steps=12)
        if made == "asking":
            net = VsrNet(NET)
            return _bytes(finetune(net, pairs, pairs, budget, settings=asked, checkpoint=path, progress=progress))
        options = QuantOptions(plan=StagePlan(0.4, 0.3, 0.3))
        found = qat(
            VsrNet(TINY), pairs, None, budget, settings=CLOSE, options=options, checkpoint=path, progress=progress
        )  # fmt: skip
        return _bytes(found.network)

    whole = learn(tmp_path / "whole.pt")
    loaded: list[str] = []
    load = torch.load
    monkeypatch.setattr(
        torch, "load", lambda *a, **named: loaded.append(str(named.get("map_location"))) or load(*a, **named)
    )
    there, back = (nullcontext(), elsewhere()) if first == "cpu" else (elsewhere(), nullcontext())
    with there, pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "cut.pt", stop)
    with back:
        assert learn(tmp_path / "cut.pt") == whole
    assert "cpu" in loaded, "the loop's checkpoint; what a stage begins with was always written on the CPU"


def test_a_network_comes_back_when_its_training_fails(pairs: PairSet, places: list[str]) -> None:
    net = VsrNet(NET)

    def fail(_share: float, _what: str) -> None:
        assert net.head.weight.device == ELSEWHERE
        raise ValueError("stop here")

    with elsewhere(), pytest.raises(ValueError, match="stop here"):
        finetune(net, pairs, pairs, Budget(steps=4), settings=SMALL, progress=fail)
    assert {value.device for value in net.parameters()} == {CPU}
