"""`bench history`: three histories, one way to play them, and integers that follow the trained net."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import history
from benchmarks.recurrence.clips import Scene, batch
from benchmarks.recurrence.exporting import exported
from benchmarks.recurrence.net import POOL, History, RecurrentNet
from benchmarks.recurrence.playing import played
from benchmarks.recurrence.training import tensor, trained


def scene(seed: int, frames: int = 6) -> Scene:
    """A picture that moves by a pixel a frame, and its noisy half."""
    random = np.random.default_rng(seed)
    wide = random.integers(40, 200, (8, 12, 3)).repeat(10, axis=0).repeat(10, axis=1).astype(np.uint8)
    hr = np.stack([wide[:64, at : at + 96] for at in range(frames)])
    lr = np.clip(hr[:, ::2, ::2] + random.normal(0, 5, (frames, 32, 48, 3)), 0, 255).astype(np.uint8)
    return Scene(f"scene {seed}", lr, hr)


SCENES = [scene(1), scene(2)]


@pytest.fixture(scope="module")
def nets() -> dict[History, RecurrentNet]:
    """A few steps for each history: enough for weights that are no longer those of the start."""
    return {kind: trained(kind, SCENES, steps=3) for kind in History}


def test_the_same_training_gives_the_same_net(nets: dict[History, RecurrentNet]) -> None:
    again = trained(History.FULL, SCENES, steps=3)
    for one, other in zip(nets[History.FULL].parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_is_handed_on_is_all_the_means_or_nothing(nets: dict[History, RecurrentNet]) -> None:
    left = torch.rand(1, 8, 8, 12)
    assert torch.equal(nets[History.FULL].handed(left), left)
    assert not nets[History.NONE].handed(left).any()
    pooled = nets[History.POOLED].handed(left)
    assert torch.allclose(pooled[0, 3, 4:8, 8:12], left[0, 3, 4:8, 8:12].mean().expand(POOL, POOL), atol=1e-6)


def test_the_integers_on_the_device_follow_the_net(nets: dict[History, RecurrentNet]) -> None:
    for kind in History:
        net, ways = nets[kind], {"pooled": kind is History.POOLED, "forget": kind is History.NONE}
        (psnr,) = played(exported(net, SCENES), SCENES[:1], **ways).psnr
        images, kept = [], net.first(tensor(SCENES[0].lr[:1]))
        with torch.inference_mode():
            for frame in SCENES[0].lr:
                image, left = net(tensor(frame[None]), kept)
                kept = net.handed(left)
                images.append(np.clip(np.rint(image[0].permute(1, 2, 0).numpy() * 255), 0, 255))
        error = np.mean((np.stack(images[2:]) - SCENES[0].hr[2:].astype(np.float64)) ** 2)
        assert psnr == pytest.approx(10 * np.log10(255**2 / error), abs=0.25), kind


def test_every_figure_is_printed_and_the_pooled_state_is_a_sixteenth(nets: dict[History, RecurrentNet]) -> None:
    found = history.runs({kind: exported(net, SCENES) for kind, net in nets.items()}, SCENES)
    figures = {figure.id: figure for figure in history.figures(found, SCENES, 1.0)}
    assert {figure.reach for figure in figures.values()} == {"printed"}
    assert figures["history.promise.memory"].value is True
    assert found["full"].state_bytes == 16 * found["pooled"].state_bytes
    assert found["pooled"].ddr_bytes < found["full"].ddr_bytes
    wanted = found["full"].mean - found["full_then_none"].mean
    assert figures["history.cost.full_then_none"].value == pytest.approx(wanted, abs=1e-3)


def test_crops_of_both_sizes_show_the_same_place() -> None:
    plain = Scene("plain", SCENES[0].hr[:, ::2, ::2], SCENES[0].hr)
    low, high = batch([plain], np.random.default_rng(0), 2, 3, 16)
    assert low.shape == (3, 2, 16, 16, 3)
    np.testing.assert_array_equal(high[:, :, ::2, ::2], low)
