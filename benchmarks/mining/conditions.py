"""Known degradations, one at a time and together, mild to strong. Names are the figures' names."""

from __future__ import annotations

from flows.data.degrade import HARD_VARIETY, Degradation

KNOWN: dict[str, Degradation] = {
    "dim": Degradation(gain=0.5),
    "low_light_1": HARD_VARIETY[0],
    "low_light_2": HARD_VARIETY[1],
    "low_light_3": HARD_VARIETY[2],
    "noise_12": Degradation(noise=12.0),
    "noise_20": Degradation(noise=20.0),
    "noise_28": Degradation(noise=28.0),
    "crf_30": Degradation(crf=30.0),
    "crf_36": Degradation(crf=36.0),
    "crf_40": Degradation(crf=40.0),
    "blur_0.6": Degradation(blur=0.6),
    "blur_1.2": Degradation(blur=1.2),
    "loss_3": Degradation(crf=24.0, loss=0.03),
    "loss_8": Degradation(crf=24.0, loss=0.08),
    "noise_and_crf": Degradation(noise=12.0, crf=32.0),
    "blur_and_crf": Degradation(blur=0.9, crf=34.0),
    "dark_and_crf": Degradation(gain=0.45, noise=8.0, crf=34.0),
}
"""`Degradation` says what the numbers mean; all else is a healthy call."""
