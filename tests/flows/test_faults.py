"""The family of faults: equal seeds give equal bytes, a JSON form, and each fault is of the kind that it claims."""

from __future__ import annotations

import numpy as np
import pytest

from flows.data.clips import Frames, shrink
from flows.data.coders import Coder, encode_with
from flows.data.errors import FaultError, VideoError
from flows.data.faults.chain import FAMILY, KINDS, Chain
from flows.data.faults.fault import Setting, runs
from flows.data.faults.layouts import LAYOUTS, Layout, boxes
from flows.data.faults.network import Coding, DroppedFrames
from flows.data.faults.optics import Defocus, MotionBlur
from flows.data.faults.sensor import HighlightClip, LowLight, SensorNoise
from flows.data.faults.text import ScreenText

LOW = Setting(25.0, 2)


@pytest.fixture(scope="module")
def clip() -> Frames:
    """A bright square that moves over a textured ramp, 12 frames of 128 x 160."""
    texture = np.random.default_rng(0).uniform(-20, 20, (128, 160, 3))
    ramp = np.linspace(20, 220, 160)[None, :, None] + texture
    frames = np.repeat(ramp[None].astype(np.uint8), 12, axis=0)
    for index in range(12):
        frames[index, 40:72, 6 * index : 6 * index + 24] = 250
    return frames


def _random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _psnr(a: Frames, b: Frames) -> float:
    return float(10 * np.log10(255.0**2 / np.square(a.astype(float) - b).mean()))


@pytest.mark.parametrize("name", FAMILY)
def test_equal_chains_give_equal_bytes_and_sizes(clip: Frames, name: str) -> None:
    chain = FAMILY[name].with_seed(3)
    (low, high), (again, target) = chain.degrade(clip), Chain.from_json(chain.to_json()).degrade(clip)
    assert low.shape == (12, 64, 80, 3)
    assert high.shape == clip.shape
    assert np.array_equal(low, again)
    assert np.array_equal(high, target)


@pytest.mark.parametrize("name", ["lost-pictures", "lost-slices", "stutter", "grain", "dusk", "shared-screen"])
def test_another_seed_is_another_draw(clip: Frames, name: str) -> None:
    found = {FAMILY[name].with_seed(seed).degrade(clip)[0].tobytes() for seed in range(8)}
    assert len(found) > 1


def test_family_has_every_kind_and_every_layout() -> None:
    assert {kind for chain in FAMILY.values() for kind in chain.kinds} == set(KINDS)
    assert len(LAYOUTS) == 12
    assert {fault.name for chain in FAMILY.values() for fault in chain.faults if isinstance(fault, Layout)} == set(
        LAYOUTS
    )


def test_another_fault_leaves_the_draws_of_the_rest(clip: Frames) -> None:
    noisy = SensorNoise(4.0, 4.0)
    alone = Chain((noisy,), 5).receive(clip)
    behind = Chain((Defocus(0.0), noisy), 5).receive(clip)
    assert np.array_equal(alone, behind)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not one"),
        ("{", "not one"),
        ('{"faults": [{"kind": "rain"}]}', "no fault 'rain'"),
        ('{"faults": [{"kind": "defocus", "radius": 1}]}', "radius"),
        ('{"faults": [{"kind": "defocus", "sigma": 99}]}', "sigma is 99"),
        ('{"faults": [{"kind": "defocus", "sigma": "x"}]}', "sigma is 'x'"),
        ('{"faults": [{"kind": "coding"}]}', "exactly one"),
        ('{"faults": [{"kind": "coding", "codec": "vp9", "qp": 30}]}', "vp9"),
        ('{"faults": [{"kind": "layout", "name": "circle"}]}', "circle"),
        ('{"faults": [{"kind": "coding", "qp": 30}, {"kind": "defocus"}]}', "from lens to network"),
        ('{"faults": [], "seed": -1}', "seed"),
    ],
)
def test_wrong_json_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        Chain.from_json(text)


def test_a_chain_is_about_clips_not_pictures(clip: Frames) -> None:
    with pytest.raises(FaultError, match="5 frames or more, got 4"):
        FAMILY["healthy"].degrade(clip[:4])


def test_defocus_removes_detail_and_keeps_the_mean(clip: Frames) -> None:
    soft = Defocus(1.5).apply(clip, _random(), LOW)
    assert soft.mean() == pytest.approx(clip.mean(), abs=0.5)
    assert (
        np.abs(np.diff(soft[0].astype(int), axis=0)).mean() < 0.4 * np.abs(np.diff(clip[0].astype(int), axis=0)).mean()
    )


def test_motion_blur_touches_only_what_moves(clip: Frames) -> None:
    smeared = MotionBlur(4).apply(clip, _random(), LOW)
    assert np.array_equal(smeared[:, 80:], clip[:, 80:])
    assert not np.array_equal(smeared[6, 40:72], clip[6, 40:72])


def test_noise_variance_grows_linearly_with_the_signal() -> None:
    levels = (20, 80, 140, 200)
    flat = np.stack([np.full((96, 96, 3), level, np.uint8) for level in levels])
    noisy = SensorNoise(2.0, 10.0).apply(flat, _random(), LOW)
    for level, frame in zip(levels, noisy, strict=True):
        assert frame.var() == pytest.approx(4.0 + 100.0 * level / 255.0 + 1 / 12, rel=0.06)


def test_noise_is_fresh_in_every_frame() -> None:
    flat = np.full((2, 64, 64, 3), 120, np.uint8)
    first, second = SensorNoise().apply(flat, _random(), LOW).astype(float) - 120
    assert abs(float(np.corrcoef(first.ravel(), second.ravel())[0, 1])) < 0.05


def test_gain_amplifies_noise_with_the_light() -> None:
    flat = np.full((5, 64, 64, 3), 160, np.uint8)
    dim, lifted = (LowLight(0.2, gain, 2.0, 6.0).apply(flat, _random(1), LOW) for gain in (1.0, 4.0))
    assert dim.mean() == pytest.approx(32, abs=0.5)
    assert lifted.mean() == pytest.approx(128, abs=0.5)
    assert lifted.std() == pytest.approx(4 * dim.std(), rel=0.03)
    assert np.unique(LowLight(0.2, 4.0).clean(flat, _random(), LOW)).tolist() == [128]


def test_clipping_saturates_highlights_only() -> None:
    ramp = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
    clipped = HighlightClip(0.6, 6.0).apply(ramp, _random(), LOW).reshape(256, 3)[:, 0]
    assert np.array_equal(clipped[:154], np.arange(154)), "shadows and middle tones are unchanged"
    assert (clipped[171:] == 255).all(), "highlights are white"
    assert (np.diff(clipped.astype(int)) >= 0).all()


def test_text_is_sharp_high_contrast_and_only_where_the_panel_is(clip: Frames) -> None:
    shown = ScreenText(0.5, 2).apply(clip, _random(), Setting(25.0, 1))
    assert np.array_equal(shown[:, :64], clip[:, :64])
    assert set(np.unique(shown[:, 64:])) == {20, 245}
    assert not np.array_equal(shown[0, 64:], shown[6, 64:]), "a line is being typed"


@pytest.mark.parametrize("fault", [ScreenText(0.5, 2), *(Layout(name) for name in LAYOUTS)], ids=str)
def test_composition_of_the_halved_clip_is_the_halved_composition(clip: Frames, fault: ScreenText | Layout) -> None:
    smooth = Defocus(3.0).apply(clip, _random(), LOW)
    whole = shrink(fault.apply(smooth, _random(), Setting(25.0, 1)), 2)
    halved = fault.apply(shrink(smooth, 2), _random(), Setting(25.0, 2))
    assert float(np.abs(whole.astype(int) - halved).mean()) < 1.0


def test_layouts_differ_lie_on_even_pixels_and_inside_the_canvas(clip: Frames) -> None:
    pictures = {Layout(name).apply(clip, _random(), LOW).tobytes() for name in LAYOUTS}
    assert len(pictures) == 12
    for name in LAYOUTS:
        for top, left, height, width in boxes(name, (72, 88), 2):
            assert top % 2 == left % 2 == height % 2 == width % 2 == 0
            assert top + height <= 72
            assert left + width <= 88


def test_letterbox_has_bars_and_gallery_has_as_many_tiles_as_it_says(clip: Frames) -> None:
    tall = Layout("portrait-letterbox", 0).apply(clip, _random(), LOW)
    assert (tall[:, :, :48] == 0).all()
    assert (tall[:, :, -48:] == 0).all()
    assert [len(LAYOUTS[f"gallery-{size}"]) for size in ("2x2", "2x3", "3x3", "4x4")] == [4, 6, 9, 16]


def test_lost_runs_have_the_asked_share_and_length() -> None:
    lost = runs(200_000, 0.1, 4.0, _random())
    starts = int((np.diff(lost.astype(int)) == 1).sum())
    assert lost.mean() == pytest.approx(0.1, rel=0.05)
    assert lost.sum() / starts == pytest.approx(4.0, rel=0.05)


def test_dropped_frames_are_repeats_and_the_rest_is_untouched(clip: Frames) -> None:
    shown = DroppedFrames(0.4, 2.0).apply(clip, _random(2), LOW)
    repeated = [index for index in range(1, 12) if np.array_equal(shown[index], shown[index - 1])]
    assert 1 <= len(repeated) < 11
    assert all(np.array_equal(shown[index], clip[index]) for index in range(12) if index not in repeated)


@pytest.mark.parametrize("codec", ["x264", "x265"])
def test_coarser_quantiser_means_fewer_bytes_and_larger_error(clip: Frames, codec: str) -> None:
    grey = clip[..., :1].repeat(3, axis=3)  # colours of single pixels are lost to 4:2:0 at any quantiser
    sizes = [sum(p.size for p in encode_with(grey, Coder(codec, qp=qp))) for qp in (20, 40)]
    errors = [_psnr(Coding(codec, qp=qp).apply(grey, _random(), LOW), grey) for qp in (20, 40)]
    assert sizes[1] < sizes[0] / 3
    assert errors[1] < errors[0] - 5


@pytest.mark.parametrize("codec", ["x264", "x265"])
def test_bit_rate_is_kept(clip: Frames, codec: str) -> None:
    noisy = SensorNoise(20.0, 0.0).apply(np.concatenate([clip] * 5), _random(), LOW)
    size = sum(p.size for p in encode_with(noisy, Coder(codec, bitrate_kbps=200.0)))
    assert size * 8 * 25 / len(noisy) / 1000 < 300.0


def test_the_two_codecs_are_two_codecs(clip: Frames) -> None:
    assert not np.array_equal(*(Coding(codec, qp=34).apply(clip, _random(), LOW) for codec in ("x264", "x265")))


@pytest.mark.parametrize("codec", ["x264", "x265"])
def test_lost_pictures_are_concealed_and_hurt(clip: Frames, codec: str) -> None:
    whole = Coding(codec, qp=24).apply(clip, _random(), LOW)
    broken = Coding(codec, qp=24, loss=0.3).apply(clip, _random(1), LOW)
    assert broken.shape == whole.shape
    assert np.array_equal(broken[0], whole[0])
    assert _psnr(broken, clip) < _psnr(whole, clip) - 1


def test_lost_slices_damage_a_part_of_the_picture(clip: Frames) -> None:
    whole = Coding(qp=24, packet_bytes=300).apply(clip, _random(), LOW)
    broken = Coding(qp=24, packet_bytes=300, loss=0.1).apply(clip, _random(1), LOW)
    assert np.array_equal(broken[0], whole[0])
    first = next(index for index in range(12) if not np.array_equal(broken[index], whole[index]))
    rows = np.abs(broken[first].astype(int) - whole[first]).sum(axis=(1, 2))
    assert 0 < (rows > 0).sum() < 128, "other rows of that picture are as sent"


def test_frame_too_small_for_x265_is_refused_with_a_remedy() -> None:
    with pytest.raises(VideoError, match="use x264"):
        Coding("x265", qp=30).apply(np.zeros((5, 16, 16, 3), np.uint8), _random(), LOW)
