"""The privacy harness: attackers get what devices send and nothing else, scores are right, nobody is on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.inverting import attacks, identify
from benchmarks.inverting.attacks import Attack, Pairs, as_frames, as_pictures, enlarged
from benchmarks.inverting.decoders import MapDecoder, SetDecoder
from benchmarks.inverting.material import Shot
from benchmarks.inverting.people import HELD_OUT, RECORDINGS, TRAINING, recordings
from benchmarks.inverting.refine import refined
from benchmarks.inverting.scores import psnr, ssim
from benchmarks.inverting.victim import Device, OpenNet, sent
from benchmarks.privacy import ATTACKS, PSNR_DB, ROOT, SSIM, Result, gate_figures, identity_figures
from flows.data.degrade import blur

MODEL = (ROOT / "seeds" / "quality.onnx").read_bytes()
RANDOM = np.random.default_rng(0)


def picture(seed: int, side: int = 256) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((side, side, 3)).astype(np.float32)
    soft = blur(noise, 12.0)
    return np.clip(128 + 60 * soft / soft.std(), 0, 255).astype(np.uint8)


def run(seed: int) -> np.ndarray:
    return np.stack([picture(seed)] * 4)


def test_the_gate_is_the_one_that_was_agreed_and_training_fits_eight_minutes() -> None:
    assert (PSNR_DB, SSIM) == (16.0, 0.35)
    assert sum(attack.seconds for attack in ATTACKS) <= 6 * 60


def test_people_are_on_one_side_only() -> None:
    assert set(TRAINING) | set(HELD_OUT) == set(RECORDINGS)
    assert not set(TRAINING) & set(HELD_OUT)
    names = [name for of in RECORDINGS.values() for name in of]
    assert len(names) == len(set(names)) == 18


def test_recordings_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    assert recordings(tmp_path) == []
    assert identity_figures(Device(MODEL), [])[0].value == "no recordings"


def test_equal_pictures_score_one_and_known_noise_scores_its_decibels() -> None:
    truth = picture(1)
    assert ssim(truth, truth) == pytest.approx(1.0)
    assert psnr(truth // 2 + 10, truth // 2) == pytest.approx(20 * np.log10(255 / 10), abs=1e-6)
    noise = RANDOM.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    assert ssim(noise[0], noise[1]) < 0.1
    assert ssim(255 - noise[0], noise[0]) < -0.5


def test_smooth_pictures_resemble_each_other_by_ssim_whatever_they_show() -> None:
    """Why an absolute bound on SSIM says little where walls are smooth, and "nothing_sent" is printed beside."""
    assert ssim(picture(2), picture(1)) > 0.35


def test_the_attackers_copy_of_the_net_gives_nearly_the_devices_codes() -> None:
    device, net = Device(MODEL).codes(run(3)), attacks.open_codes(OpenNet(MODEL), run(3)[None])[0]
    assert device.shape == net.shape == (4, 8, 8, 16)
    assert (device == net).mean() > 0.9
    assert np.abs(device.astype(int) - net).max() <= 2


def test_attackers_on_what_is_sent_cannot_use_the_order_of_cells() -> None:
    torch.manual_seed(0)
    decoder = SetDecoder().eval()
    codes = torch.from_numpy(RANDOM.integers(0, 16, (1, 4, 64, 16))).float() / 15
    mixed = codes[:, :, torch.randperm(64)]
    with torch.no_grad():
        assert torch.allclose(decoder(codes), decoder(mixed), atol=1e-5)
        assert MapDecoder(4)(codes).shape == (1, 3, 64, 64)


def test_uploads_have_no_places_unless_the_attack_says_otherwise() -> None:
    codes = RANDOM.integers(0, 16, (2, 4, 8, 8, 16), dtype=np.uint8)
    ordered = attacks.uploads(codes, True).numpy()
    mixed = attacks.uploads(codes, False).numpy()
    assert np.array_equal((ordered * 15).round().astype(np.uint8).reshape(codes.shape), codes)
    assert not np.array_equal(ordered, mixed)
    assert np.allclose(np.sort(ordered, axis=2), np.sort(mixed, axis=2))


def toy_pairs() -> Pairs:
    """Codes that say nothing but how bright the picture is."""
    levels = np.arange(64) % 16
    codes = np.broadcast_to(levels[:, None, None, None, None], (64, 4, 8, 8, 16)).astype(np.uint8)
    pictures = np.broadcast_to((levels * 17)[:, None, None, None], (64, 64, 64, 3)).astype(np.uint8)
    return Pairs(codes, pictures)


def test_an_attacker_learns_what_the_codes_do_tell(tmp_path: Path) -> None:
    attack, pairs = Attack("toy", white=False, ordered=True, seconds=6.0), toy_pairs()
    decoder = attacks.train(attack, pairs, [], OpenNet(MODEL), None, lambda share, text: None)
    drawn = attacks.rebuild(decoder, pairs.codes[:16], True)
    told = [psnr(a, b.repeat(4, 0).repeat(4, 1)) for a, b in zip(drawn, pairs.pictures, strict=False)]
    assert np.mean(told) > 20.0


def test_an_interrupted_attack_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    said: list[str] = []
    attack = Attack("toy", white=False, ordered=True, seconds=2.0)

    class Stopped(Exception):
        pass

    def stop(share: float, text: str) -> None:
        said.append(text)
        if share > 0.4:
            raise Stopped

    with pytest.raises(Stopped):
        attacks.train(attack, toy_pairs(), [], OpenNet(MODEL), tmp_path / "toy.pt", stop)
    assert (tmp_path / "toy.pt").exists()
    shares: list[float] = []
    attacks.train(
        attack, toy_pairs(), [], OpenNet(MODEL), tmp_path / "toy.pt", lambda share, text: shares.append(share)
    )
    assert shares[0] > 0.2


def test_refining_brings_the_pictures_codes_nearer_to_the_sent_ones() -> None:
    net = OpenNet(MODEL)
    truth, start = picture(5)[None], np.full((1, 256, 256, 3), 120, np.uint8)
    wanted = attacks.open_codes(net, truth[:, None])[:, 0]
    better = refined(net, start, np.stack([sent(wanted)[0]]), ordered=False)

    def away(drawn: np.ndarray) -> float:
        found = attacks.open_codes(net, drawn[:, None])[:, 0].reshape(-1, 16).astype(int)
        return float(np.abs(np.sort(found, 0) - np.sort(wanted.reshape(-1, 16).astype(int), 0)).mean())

    assert away(better) <= away(start)


def test_the_gate_takes_the_strongest_attacker_and_is_printed_when_it_is_missed() -> None:
    weak, strong = Result(12.0, 0.3, "a"), Result(17.0, 0.4, "b")
    assert [figure.ok for figure in gate_figures({"a": weak})] == [True, True]
    missed = gate_figures({"a": weak, "b": strong})
    assert [(figure.value, figure.ok) for figure in missed] == [(17.0, False), (0.4, False)]


def shots_of(people: dict[str, int]) -> list[Shot]:
    return [
        Shot(person, f"{person}-{index}", np.full((4, 64, 64, 3), 40 * place + index, np.uint8))
        for place, (person, count) in enumerate(people.items())
        for index in range(count)
        for _ in range(2)
    ]


def test_people_are_found_where_they_can_be_and_not_where_all_is_alike() -> None:
    shots = shots_of({"a": 3, "b": 3, "c": 3})
    told = np.stack([identify.describe_picture(shot) for shot in shots])
    assert identify.hits(shots, told) == (9, 9)
    right, probes = identify.hits(shots, np.random.default_rng(3).normal(size=(len(shots), 12)))
    assert right < probes
    assert identify.chance(shots) == pytest.approx(1 / 3)


def test_a_description_of_codes_does_not_depend_on_their_order() -> None:
    codes = RANDOM.integers(0, 16, (4, 8, 8, 16), dtype=np.uint8)
    told = identify.describe_codes(sent(codes))
    np.testing.assert_allclose(told, identify.describe_codes(codes))


def test_pictures_survive_the_way_to_numbers_and_back() -> None:
    frames = RANDOM.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    assert np.array_equal(as_frames(as_pictures(frames)), frames)
    assert enlarged(as_pictures(frames)).shape == (2, 3, 256, 256)
