"""`edgeloop bench privacy`: attacks on what leaves a device, by attackers who train as hard as eight CPU minutes allow.

The shipped embedder, and exactly what the agent sends of it: 16 channels at 1/32, 4 bit, four frames, the cells of each
frame sorted. Attackers learn on public video and on recordings of other people (partly in the same room) and
are judged on people they never saw. Printed beside: an attacker who gets no codes at all (the mean picture), one who is
told the true mean colour and nothing else, and attackers who get the cells in their places, which devices do not send.
Stronger attackers exist (more data, generative priors): the figures are floors. Checkpoints lie in `build/privacy`
until the bench is through, so that an interrupted run goes on.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inverting import attacks, identify
from benchmarks.inverting.attacks import Attack, as_frames, as_pictures, enlarged
from benchmarks.inverting.material import Shot, close_ups, library, portraits
from benchmarks.inverting.people import recordings
from benchmarks.inverting.refine import refined
from benchmarks.inverting.scores import psnr, ssim
from benchmarks.inverting.victim import Codes, Device, OpenNet, sent
from edgeloop.figures import Figure, at_most
from flows.data.clips import Frames
from flows.data.corpus import default_corpus

ROOT = Path(__file__).resolve().parents[1]
PSNR_DB, SSIM = 16.0, 0.35
JUDGED = 32
ATTACKS = (
    Attack("black_box", white=False, ordered=False, seconds=80.0),
    Attack("white_box", white=True, ordered=False, seconds=110.0),
    Attack("ordered_black_box", white=False, ordered=True, seconds=45.0),
    Attack("ordered_white_box", white=True, ordered=True, seconds=60.0),
)


@dataclass(frozen=True)
class Result:
    """Mean PSNR in dB and SSIM over the judged pictures, and the means of the person best rebuilt."""

    psnr: float
    ssim: float
    worst: str


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the privacy harness."""
    model = (ROOT / "seeds" / "quality.onnx").read_bytes()
    device, net, corpus, people = Device(model), OpenNet(model), default_corpus(), recordings()
    tell(0.0, "pictures")
    scenes, shots = library(corpus, people), _spread(portraits(corpus, people))
    codes = np.stack([device.codes(shot.frames) for shot in shots])
    pairs = attacks.collect(device, scenes, attacks.PAIRS, 11, lambda share, text: tell(0.05 + 0.1 * share, text))
    mean = as_frames(enlarged(as_pictures(pairs.pictures).mean(0, keepdim=True)))[0]
    found = baseline_figures(shots, mean)
    folder = _folder(model)
    results: dict[str, Result] = {}
    for index, attack in enumerate(ATTACKS):

        def part(share: float, text: str, begin: float = 0.15 + 0.2 * index) -> None:
            tell(begin + 0.2 * share, text)

        decoder = attacks.train(attack, pairs, scenes, net, folder / f"{attack.name}.pt", part)
        drawn = attacks.rebuild(decoder, codes, attack.ordered)
        results[attack.name] = judged(shots, drawn)
        if attack.white:
            bent = refined(net, drawn, last_frames(codes, attack.ordered), attack.ordered)
            results[f"{attack.name}_refined"] = judged(shots, bent)
    tell(0.96, "faces")
    found += attack_figures(results)
    found += gate_figures({name: result for name, result in results.items() if not name.startswith("ordered")})
    found += identity_figures(device, close_ups(people))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def judged(shots: Sequence[Shot], drawn: Frames) -> Result:
    """Compare pictures [n, 256, 256, 3] with the last frames of `shots`."""
    decibel = np.array([psnr(a, shot.frames[-1]) for a, shot in zip(drawn, shots, strict=True)])
    alike = np.array([ssim(a, shot.frames[-1]) for a, shot in zip(drawn, shots, strict=True)])
    owners = np.array([shot.person for shot in shots])
    names = sorted(set(owners.tolist()), key=lambda name: -float(decibel[owners == name].mean()))
    worst = f"{names[0]} {decibel[owners == names[0]].mean():.1f} dB, {alike[owners == names[0]].mean():.2f}"
    return Result(float(decibel.mean()), float(alike.mean()), worst)


def baseline_figures(shots: Sequence[Shot], mean: Frames) -> list[Figure]:
    """What pictures reach that use no code at all."""
    colours = [shot.frames[-1].reshape(-1, 3).mean(0) for shot in shots]
    flat = np.stack([np.broadcast_to(np.rint(c).astype(np.uint8), mean.shape) for c in colours])
    nothing, colour = judged(shots, np.stack([mean] * len(shots))), judged(shots, flat)
    people = len({shot.person for shot in shots})
    return [
        Figure("pictures", len(shots), f"of {people} people nobody trained on", "printed", True),
        *_printed("nothing_sent", nothing, "by the mean picture, without any code"),
        *_printed("mean_colour", colour, "by one flat colour, the true mean of the picture"),
    ]


def attack_figures(results: dict[str, Result]) -> list[Figure]:
    """Every attacker, printed."""
    return [figure for name, one in results.items() for figure in _printed(name, one, f"; best rebuilt {one.worst}")]


def gate_figures(results: dict[str, Result]) -> list[Figure]:
    """The strongest attacker on what is really sent, against the gate."""
    return [
        at_most("gate.psnr", round(max(one.psnr for one in results.values()), 2), "dB", PSNR_DB),
        at_most("gate.ssim", round(max(one.ssim for one in results.values()), 3), "", SSIM),
    ]


def identity_figures(device: Device, shots: Sequence[Shot]) -> list[Figure]:
    """Names of people from uploads of their faces, beside chance and beside the pictures themselves."""
    if not shots:
        return [Figure("identity", "no recordings", "set EDGELOOP_PEOPLE to their folder", "printed", True)]
    by_codes = np.stack([identify.describe_codes(device.codes(shot.frames)) for shot in shots])
    by_picture = np.stack([identify.describe_picture(shot) for shot in shots])
    chance = identify.chance(shots)
    rows = []
    for name, described in (("codes", by_codes), ("pictures", by_picture)):
        right, probes = identify.hits(shots, described)
        unit = (
            f"of {probes} recordings named right; chance {chance:.2f} +- {np.sqrt(chance * (1 - chance) / probes):.2f}"
        )
        rows.append(Figure(f"identity.{name}", round(right / probes, 3), unit, "printed", True))
    return rows


def last_frames(codes: Codes, ordered: bool) -> Codes:
    """What was sent of the last frame of each run: (n, 8, 8, 16)."""
    return np.stack([(one if ordered else sent(one))[-1] for one in codes])


def _printed(name: str, result: Result, text: str) -> list[Figure]:
    return [
        Figure(f"{name}.psnr", round(result.psnr, 2), f"dB {text}", "printed", True),
        Figure(f"{name}.ssim", round(result.ssim, 3), text.lstrip("; "), "printed", True),
    ]


def _spread(shots: Sequence[Shot]) -> list[Shot]:
    return list(shots)[:: max(1, len(shots) // JUDGED)]


def _folder(model: bytes) -> Path:
    recipe = hashlib.sha256(model + repr((ATTACKS, attacks.PAIRS, attacks.BATCH)).encode()).hexdigest()[:12]
    folder = ROOT / "build" / "privacy" / recipe
    folder.mkdir(parents=True, exist_ok=True)
    return folder
