"""Perceptual metrics: the published pair, order of known damage, and readers that cannot be made to run anything."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from flows.perceptual.flicker import still_flicker, temporal_loss
from flows.perceptual.lpips import Lpips, lpips_of
from flows.perceptual.naturalness import MOMENTS, moment_loss, moments
from flows.perceptual.safe_pickle import UnsafePickle, load_arrays
from flows.perceptual.weights import METRICS, WeightsError, load


def test_a_pickle_of_arrays_is_read_by_the_path_of_its_keys() -> None:
    arrays = {"a": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}, "b": np.ones(2, np.int64)}
    found = load_arrays(pickle.dumps(arrays, protocol=4))
    assert sorted(found) == ["a/kernel", "b"]
    np.testing.assert_array_equal(found["a/kernel"], arrays["a"]["kernel"])  # type: ignore[index]


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    "value",
    [_Runs(), {"a": _Runs()}, {"a": "text"}, {"a": np.array([_Runs()], dtype=object)}, {1: np.ones(1)}],
    ids=["call", "call inside", "text", "array of objects", "key that is no text"],
)
def test_a_pickle_of_anything_else_is_refused_and_runs_nothing(
    value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafePickle):
        load_arrays(pickle.dumps(value, protocol=2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [b"", b"\x80\x02", b"no pickle at all", pickle.dumps({"a": np.ones(9)})[:-20]])
def test_a_broken_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(UnsafePickle):
        load_arrays(data)


def test_absent_weights_name_the_command_that_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="edgeloop weights fetch"):
        Lpips(tmp_path)


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "alexnet.npz").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(WeightsError, match="damaged"):
        load("alexnet", tmp_path)


def random_weights(folder: Path) -> None:
    """AlexNet-shaped random weights, so that the arithmetic is tested without a download."""
    rng = np.random.default_rng(0)
    shapes = [(11, 11, 3, 64), (5, 5, 64, 192), (3, 3, 192, 384), (3, 3, 384, 256), (3, 3, 256, 256)]
    arrays: dict[str, np.ndarray] = {}
    for index, shape in enumerate(shapes):
        arrays[f"AlexNet_0/Conv_{index}/kernel"] = rng.normal(0, np.prod(shape[:3]) ** -0.5, shape).astype(np.float32)
        arrays[f"AlexNet_0/Conv_{index}/bias"] = np.zeros(shape[-1], np.float32)
    heads = {f"lin{i}.model.1.weight": rng.random((1, s[-1], 1, 1)).astype(np.float32) for i, s in enumerate(shapes)}
    np.savez(folder / "alexnet.npz", **arrays)
    np.savez(folder / "lpips-heads.npz", **heads)
    assert set(METRICS["lpips"]) == {"alexnet", "lpips-heads"}


def test_lpips_is_zero_for_equal_pictures_grows_with_damage_and_has_gradients(tmp_path: Path) -> None:
    random_weights(tmp_path)
    metric = Lpips(tmp_path)
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, (1, 64, 72, 3), dtype=np.uint8)
    noisy = [np.clip(picture + rng.normal(0, s, picture.shape), 0, 255).astype(np.uint8) for s in (4.0, 16.0, 48.0)]
    found = [float(lpips_of(metric, frames, picture)[0]) for frames in (picture, *noisy)]
    assert found[0] == 0.0
    assert found == sorted(found)
    x = torch.rand(1, 3, 48, 48, requires_grad=True)
    metric(x, torch.rand(1, 3, 48, 48)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert float(x.grad.abs().sum()) > 0


def test_pictures_too_small_for_lpips_are_refused(tmp_path: Path) -> None:
    random_weights(tmp_path)
    with pytest.raises(ValueError, match="35"):
        Lpips(tmp_path)(torch.zeros(1, 3, 34, 64), torch.zeros(1, 3, 34, 64))


def textured(n: int = 2, side: int = 64) -> torch.Tensor:
    """Pictures with power at all scales."""
    generator = torch.Generator().manual_seed(3)
    layers = [torch.rand(n, 3, side // k, side // k, generator=generator) for k in (1, 2, 4, 8)]
    return torch.stack([F.interpolate(x, side, mode="nearest") for x in layers]).mean(dim=0)


def test_moments_of_naturalness_move_with_blur_and_noise_and_not_with_light() -> None:
    picture = textured()
    blurred = F.avg_pool2d(picture, 3, 1, 1)
    noisy = (picture + 0.2 * torch.randn(picture.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    darker = 0.5 * picture + 0.1
    assert moments(picture).shape == (2, MOMENTS)
    assert float(moment_loss(picture, picture)) == 0.0
    assert float(moment_loss(darker, picture)) < 0.2 * float(moment_loss(blurred, picture))
    assert float(moment_loss(darker, picture)) < 0.5 * float(moment_loss(noisy, picture))


def test_flat_and_black_pictures_have_finite_moments_and_gradients() -> None:
    x = torch.zeros(1, 3, 32, 32, requires_grad=True)
    moment_loss(x, torch.ones(1, 3, 32, 32)).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


def test_flicker_counts_where_the_truth_stands_still_only() -> None:
    truth = np.full((4, 16, 16, 3), 100, np.uint8)
    truth[1::2, :, 8:] = 200  # the right half moves
    output = truth.copy()
    output[1::2, :, :4] += 6  # a quarter of the frame flickers where it should stand still
    output[:, :, 12:] = 0  # and a quarter is wrong where it moves: content, not flicker
    share = 4 / 7  # columns that stand still: the blur of the mask takes the one beside the motion
    assert still_flicker(truth, truth) == 0.0
    assert still_flicker(output, truth) == pytest.approx(6 * share, rel=1e-5)
    assert still_flicker(output[:1], truth[:1]) == 0.0


def test_flicker_of_clips_of_different_length_is_refused() -> None:
    with pytest.raises(ValueError, match="two equal clips"):
        temporal_loss(torch.zeros(1, 3, 3, 8, 8), torch.zeros(1, 2, 3, 8, 8))


def _published() -> Path | None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "weights" / "lpips"
    return folder if (folder / "ex_ref.png").is_file() else None


@pytest.mark.skipif(_published() is None, reason="the published example pair is not part of the product")
def test_published_example_pair_is_reproduced_to_three_digits(tmp_path: Path) -> None:
    import av

    folder = _published()
    assert folder is not None
    with np.load(folder / "lpips_alex_v0.1.npz") as archive:
        layers = range(5)
        arrays = {f"AlexNet_0/Conv_{i}/kernel": archive[f"conv{i}.w"].transpose(2, 3, 1, 0) for i in layers}
        arrays |= {f"AlexNet_0/Conv_{i}/bias": archive[f"conv{i}.b"] for i in layers}
        np.savez(tmp_path / "alexnet.npz", **arrays)
        np.savez(tmp_path / "lpips-heads.npz", **{f"lin{i}.model.1.weight": archive[f"lin{i}"] for i in layers})
    pictures = []
    for name in ("ex_ref", "ex_p0", "ex_p1"):
        with av.open(str(folder / f"{name}.png")) as file:
            pictures.append(next(file.decode(video=0)).to_ndarray(format="rgb24")[None])
    metric = Lpips(tmp_path)
    assert round(float(lpips_of(metric, pictures[1], pictures[0])[0]), 3) == 0.722
    assert round(float(lpips_of(metric, pictures[2], pictures[0])[0]), 3) == 0.138
