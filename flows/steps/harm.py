"""What a condition really costs the production model, measured: a stand-in for hard calls must be hard.

Embeddings tell darkness well and noise or coding badly, so among conditions that land equally near a cluster there are
some that cost the model next to nothing. Devices call a frame hard because they expect a loss of several dB; training
under a condition that costs none teaches nothing, and judging by it proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from flows.data.clips import Frames
from flows.data.corpus import Clip
from flows.data.degrade import NORMAL, Degradation, degrade
from flows.data.pairs import Pairing, View, load_view
from flows.tasks.vsr.metrics import Upscaler, psnr_y

HARM_DB = 3.0
"""From here on a condition is harmful: the error of the picture has doubled."""

_LOOK = 4
_CROP = (256, 256)


def measured_harm(
    stand_ins: Iterable[tuple[Clip, View, Degradation]], upscale: Upscaler, pairing: Pairing = degrade
) -> dict[tuple[str, Degradation], float]:
    """dB of luma PSNR that each condition costs on each clip against a healthy call of it, over a few frames.

    A dark target flatters PSNR by 20 log10(1 / gain), which is taken back.
    """
    found: dict[tuple[str, Degradation], float] = {}
    scenes: dict[tuple[str, int], tuple[Frames, float] | None] = {}
    for clip, view, condition in stand_ins:
        place = (clip.id, view.scale)
        if place not in scenes:
            scenes[place] = _scene(clip, view, upscale, pairing)
        scene = scenes[place]
        if scene is None or (clip.id, condition) in found:
            continue
        high, healthy = scene
        low, target = pairing(high, condition, clip.fps)
        here = float(psnr_y(upscale(low), target).mean()) + 20.0 * math.log10(condition.gain)
        found[clip.id, condition] = healthy - here
    return found


def _scene(clip: Clip, view: View, upscale: Upscaler, pairing: Pairing) -> tuple[Frames, float] | None:
    high = load_view(clip, replace(view, limit=_LOOK, stride=1, crop=_CROP))
    if high is None:
        return None
    low, target = pairing(high, NORMAL, clip.fps)
    return high, float(psnr_y(upscale(low), target).mean())
