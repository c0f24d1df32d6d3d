"""`edgeloop bench privacy`: attacks on what leaves a device, by attackers who train as hard as eight CPU minutes allow.

The shipped embedder, and exactly what the agent sends of it: 16 channels at 1/32, 4 bit, four frames, the cells of each
frame sorted. Attackers learn on public video and on recordings of other people (partly in the same room) and
are judged on people they never saw: on portraits, on the faces in these portraits, and on one sharp photograph, all at
the resolution that they have. Printed beside: an attacker who gets no codes at all (the mean picture), one who is told
the true mean colour and nothing else, what each attacker gains over the former with its interval over recordings, and
attackers who get the cells in their places, which devices do not send. Where the former is over the gate already, no
embedder can pass it. Stronger attackers exist (more data, generative priors): the figures are floors. Checkpoints lie
in `build/privacy` until the bench is through, so that an interrupted run goes on.
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
from benchmarks.inverting.judging import Cut, Scores, face, flat, gain, judged, whole
from benchmarks.inverting.material import Shot, close_ups, library, photographs, portraits
from benchmarks.inverting.people import recordings
from benchmarks.inverting.photograph import photograph
from benchmarks.inverting.refine import refined
from benchmarks.inverting.victim import Codes, Device, OpenNet, sent
from benchmarks.peers.environment import PeerFailed
from edgeloop.figures import Figure, at_most
from flows.data.clips import Frames
from flows.data.corpus import default_corpus

ROOT = Path(__file__).resolve().parents[1]
PSNR_DB, SSIM = 16.0, 0.35
JUDGED = 32
FLOOR = "nothing_sent"
ATTACKS = (
    Attack("black_box", white=False, ordered=False, seconds=80.0),
    Attack("white_box", white=True, ordered=False, seconds=110.0),
    Attack("ordered_black_box", white=False, ordered=True, seconds=45.0),
    Attack("ordered_white_box", white=True, ordered=True, seconds=60.0),
)

Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Corpus:
    """What is judged together: places in the list of all shots, and which part of each picture."""

    name: str
    places: tuple[int, ...]
    cut: Cut
    text: str

    def id(self, name: str) -> str:
        """A figure's id; those of portraits have no prefix."""
        return f"{self.name}.{name}" if self.name else name


def bench(tell: Tell) -> Sequence[Figure]:
    """All figures of the privacy harness."""
    model = (ROOT / "seeds" / "quality.onnx").read_bytes()
    device, net, people = Device(model), OpenNet(model), recordings()
    tell(0.0, "pictures")
    scenes, shots = library(default_corpus(), people), _spread(portraits(default_corpus(), people))
    sharp, found = _photographs()
    shots = [*shots, *sharp]
    pairs = attacks.collect(device, scenes, attacks.PAIRS, 11, lambda share, text: tell(0.02 + 0.18 * share, text))
    drawn = {FLOOR: _mean_picture(pairs, len(shots)), **_attacked(model, net, pairs, _codes(device, shots), tell)}
    tell(0.96, "comparing")
    for corpus in corpora(shots):
        found += corpus_figures(corpus, shots, drawn)
    found += identity_figures(device, close_ups(people))
    shutil.rmtree(_folder(model), ignore_errors=True)
    return found


def _attacked(model: bytes, net: OpenNet, pairs: attacks.Pairs, codes: Codes, tell: Tell) -> dict[str, Frames]:
    """What every attacker draws, by name."""
    drawn: dict[str, Frames] = {}
    for index, attack in enumerate(ATTACKS):

        def part(share: float, text: str, begin: float = 0.2 + 0.19 * index) -> None:
            tell(begin + 0.19 * share, text)

        decoder = attacks.train(attack, pairs, net, _folder(model) / f"{attack.name}.pt", part)
        drawn[attack.name] = attacks.rebuild(decoder, codes, attack.ordered)
        if attack.white:
            upload = last_frames(codes, attack.ordered)
            drawn[f"{attack.name}_refined"] = refined(net, drawn[attack.name], upload, attack.ordered)
    return drawn


def corpora(shots: Sequence[Shot]) -> list[Corpus]:
    """Portraits, the faces in them, the photograph and its face; what has no shot is left out."""
    still = tuple(i for i, shot in enumerate(shots) if shot.recording == "photograph")
    moving = tuple(i for i in range(len(shots)) if i not in still)
    marked = tuple(i for i in moving if shots[i].face is not None)
    every = (
        Corpus("", moving, whole, "portraits of people nobody trained on"),
        Corpus("faces", marked, face, "faces of 96 x 96 in these portraits"),
        Corpus("photograph", still, whole, "cuts of one sharp photograph"),
        Corpus("photograph_face", still, face, "cuts of its face, 96 x 96"),
    )
    return [corpus for corpus in every if corpus.places]


def corpus_figures(corpus: Corpus, shots: Sequence[Shot], drawn: dict[str, Frames]) -> list[Figure]:
    """Floors, attackers, gains and the gate on one corpus."""
    mine = [shots[i] for i in corpus.places]
    scores = {name: judged(mine, pictures[list(corpus.places)], corpus.cut) for name, pictures in drawn.items()}
    floor, colour = scores.pop(FLOOR), judged(mine, flat(mine, corpus.cut), corpus.cut)
    people, recorded = len(set(floor.people)), len(set(floor.recordings))
    found = [
        Figure(corpus.id("pictures"), len(mine), f"{corpus.text}; persons: {people}", "printed", True),
        Figure(corpus.id("recordings"), recorded, "independent of each other", "printed", True),
        *_printed(corpus.id(FLOOR), floor, "by the mean picture, without any code"),
        *_printed(corpus.id("mean_colour"), colour, "by one flat colour, the true mean of the picture"),
    ]
    for name, one in scores.items():
        found += _printed(corpus.id(name), one, f"; best rebuilt {one.worst}")
        found += gain_figures(corpus.id(name), one, floor)
    unordered = {name: one for name, one in scores.items() if not name.startswith("ordered")}
    return [*found, *gate_figures(unordered, floor, corpus)]


def gain_figures(name: str, one: Scores, floor: Scores) -> list[Figure]:
    """What an attacker gains over one who got nothing."""
    found = []
    for key, unit, mine, nothing, digits in (
        ("gain_psnr", "dB", one.psnr, floor.psnr, 2),
        ("gain_ssim", "", one.ssim, floor.ssim, 3),
    ):
        over = gain(mine, nothing, one.recordings)
        interval = f"{over.low:.{digits}f} to {over.high:.{digits}f} in 95 % over recordings"
        words = f"{unit} over {FLOOR}, {interval if over.low == over.low else 'one recording'}"
        found.append(Figure(f"{name}.{key}", round(over.mean, digits) + 0.0, words.strip(), "printed", True))
    return found


def gate_figures(attackers: dict[str, Scores], floor: Scores, corpus: Corpus) -> list[Figure]:
    """The strongest attacker on what is really sent, against the gate; what nothing at all reaches stands beside."""
    decibel = max(one.mean_psnr for one in attackers.values())
    alike = max(one.mean_ssim for one in attackers.values())
    return [
        at_most(corpus.id("gate.psnr"), round(decibel, 2), f"dB ({FLOOR}: {floor.mean_psnr:.2f})", PSNR_DB),
        at_most(corpus.id("gate.ssim"), round(alike, 3), f"({FLOOR}: {floor.mean_ssim:.3f})", SSIM),
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


def _printed(name: str, result: Scores, text: str) -> list[Figure]:
    return [
        Figure(f"{name}.psnr", round(result.mean_psnr, 2), f"dB {text}", "printed", True),
        Figure(f"{name}.ssim", round(result.mean_ssim, 3), text.lstrip("; "), "printed", True),
    ]


def _photographs() -> tuple[list[Shot], list[Figure]]:
    """The sharp photograph, or a figure that says why it cannot be had."""
    try:
        return photographs(photograph()), []
    except PeerFailed as error:
        return [], [Figure("photograph", str(error), "", "scikit-image's wheel, fetched once", False)]


def _mean_picture(pairs: attacks.Pairs, count: int) -> Frames:
    mean = as_frames(enlarged(as_pictures(pairs.pictures).mean(0, keepdim=True)))
    return np.repeat(mean, count, axis=0)


def _codes(device: Device, shots: Sequence[Shot]) -> Codes:
    return np.stack([device.codes(shot.frames) for shot in shots])


def _spread(shots: Sequence[Shot]) -> list[Shot]:
    return list(shots)[:: max(1, len(shots) // JUDGED)]


def _folder(model: bytes) -> Path:
    recipe = hashlib.sha256(model + repr((ATTACKS, attacks.PAIRS, attacks.BATCH)).encode()).hexdigest()[:12]
    folder = ROOT / "build" / "privacy" / recipe
    folder.mkdir(parents=True, exist_ok=True)
    return folder
