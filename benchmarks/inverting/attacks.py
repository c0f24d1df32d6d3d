"""The attackers, trained within a budget of CPU seconds, resumable, seeds fixed.

Black box: 10,240 pairs of pictures and uploads that the attacker got by holding a device in front of public video.
White box: the weights are known as well, so the decoder also learns to draw pictures whose own codes are those that
were sent, and `refine.py` goes on from there. `ordered` attackers get the cells in their places, which devices do not
send: what that would cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.inverting.decoders import MapDecoder, SetDecoder
from benchmarks.inverting.material import RUN, SIDE, draw
from benchmarks.inverting.victim import Codes, OpenNet, Victim, sent
from flows.data.clips import Frames
from flows.tasks.training import Budget, Loop, one_thread, parameters_of

PAIRS = 10_240
BATCH = 12
CONSISTENCY = 0.3
FACTOR = 8
SMALL = SIDE // FACTOR
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Attack:
    """Name, whether weights are known, whether cells come in their places, CPU seconds."""

    name: str
    white: bool
    ordered: bool
    seconds: float


@dataclass(frozen=True)
class Pairs:
    """What a black-box attacker collected: codes (n, 4, 8, 8, 16) in their places, last pictures [n, 32, 32, 3]."""

    codes: Codes
    pictures: Frames


def collect(victim: Victim, scenes: Sequence[Frames], count: int, seed: int, tell: Tell) -> Pairs:
    """`count` random runs through the victim."""
    random = np.random.default_rng(seed)
    codes, pictures = [], []
    for index in range(count):
        run = draw(scenes, random)
        codes.append(victim.codes(run))
        pictures.append(shrunk(run[-1]))
        if index % 64 == 0:
            tell(index / count, f"pairs {index} of {count}")
    return Pairs(np.stack(codes), np.stack(pictures))


def train(attack: Attack, pairs: Pairs, net: OpenNet, checkpoint: Path | None, tell: Tell) -> nn.Module:
    """Train one attacker; goes on from its checkpoint."""
    torch.manual_seed(1)
    decoder: nn.Module = MapDecoder(RUN) if attack.ordered else SetDecoder()
    loop = Loop(
        parameters_of(decoder),
        Budget(seconds=attack.seconds, wall_seconds=8 * attack.seconds),
        rate=1.5e-3,
        decay=0.995,
        checkpoint=checkpoint,
        progress=lambda share, text: tell(share, f"{attack.name}: {text}"),
        random=np.random.default_rng(2),
    )

    def loss_of(step: int, share: float) -> Tensor:
        picked = loop.random.choice(len(pairs.codes), BATCH, replace=False)
        drawn = decoder(uploads(pairs.codes[picked], attack.ordered))
        loss = F.mse_loss(drawn, as_pictures(pairs.pictures[picked]))
        if not attack.white or step % 2:
            return loss
        again = net.codes(enlarged(drawn.clamp(0.0, 1.0))).flatten(2).transpose(1, 2)
        wanted = torch.from_numpy(pairs.codes[picked, -1].reshape(BATCH, -1, 16)).float() / 15.0
        return loss + CONSISTENCY * share * F.mse_loss(again, wanted)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()
    return decoder.eval()


def open_codes(net: OpenNet, runs: Frames) -> Codes:
    """Codes (n, frames, 8, 8, 16) of runs [n, frames, h, w, 3] by the attacker's own copy of the net."""
    with torch.no_grad():
        codes = net.codes(as_pictures(runs.reshape(-1, *runs.shape[2:])))
    maps = (codes * 15.0).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return np.asarray(maps.reshape(*runs.shape[:2], *maps.shape[1:]))


def uploads(codes: Codes, ordered: bool) -> Tensor:
    """Decoder input [n, frames, 64, 16]: codes (n, frames, 8, 8, 16), sorted as sent unless `ordered`."""
    given = codes if ordered else np.stack([sent(one) for one in codes])
    return torch.from_numpy(given.reshape(*given.shape[:2], -1, given.shape[-1])).float() / 15.0


def rebuild(decoder: nn.Module, codes: Codes, ordered: bool) -> Frames:
    """Pictures [n, 256, 256, 3] that an attacker draws from uploads of codes (n, 4, 8, 8, 16)."""
    with torch.no_grad():
        return as_frames(enlarged(decoder(uploads(codes, ordered))))


def shrunk(picture: Frames) -> Frames:
    """Area mean of 8 x 8 pixels."""
    small = picture.reshape(SMALL, FACTOR, SMALL, FACTOR, 3).astype(np.float32).mean(axis=(1, 3))
    return np.rint(small).astype(np.uint8)


def enlarged(small: Tensor) -> Tensor:
    """[n, 3, 32, 32] to [n, 3, 256, 256], bicubic."""
    return F.interpolate(small, scale_factor=float(FACTOR), mode="bicubic", align_corners=False)


def as_pictures(frames: Frames) -> Tensor:
    """u8 [n, h, w, 3] to real [n, 3, h, w] in 0..1."""
    return torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255.0


def as_frames(pictures: Tensor) -> NDArray[np.uint8]:
    """Real [n, 3, h, w] to u8 [n, h, w, 3]."""
    whole = (pictures.clamp(0.0, 1.0) * 255.0).round().to(torch.uint8)
    return np.ascontiguousarray(whole.permute(0, 2, 3, 1).numpy())
