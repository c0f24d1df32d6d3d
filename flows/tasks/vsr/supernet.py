"""Weight-sharing supernet: one set of weights, every `Architecture` of a `Space` is a slice of it.

Blocks have identity skips, so that leaving whole blocks out is harmless; widths are leading channels after a sort
by importance; a 3x3 kernel is the centre of a 5x5 one. `extract` copies a slice into a stand-alone network whose
output equals the slice's bit for bit.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.tasks.elastic import ElasticNet
from flows.tasks.vsr.architecture import DEFAULT_SPACE, Architecture, Space, Stage
from flows.tasks.vsr.branches import parts_of, weight_of
from flows.tasks.vsr.history import unrolled
from flows.tasks.vsr.net import ResidualBlock, VsrNet, anchor, first_history, space_to_depth


class Supernet(ElasticNet):
    """The largest network of `space` plus slicing."""

    def __init__(self, space: Space = DEFAULT_SPACE) -> None:
        super().__init__()
        self.space = space
        self.full = VsrNet(space.largest)
        self.frames = 1

    def forward(self, x: Tensor, architecture: Architecture | None = None) -> Tensor:
        """Output of the slice `architecture` (the largest when None)."""
        chosen = architecture or self.space.largest
        if not chosen.history:
            return self.step(x, None, chosen)[0]
        return unrolled(lambda image, kept: self.step(image, kept, chosen), x, self.frames)

    def step(self, x: Tensor, kept: Tensor | None, chosen: Architecture) -> tuple[Tensor, Tensor | None]:
        """One frame of a slice; `kept` as in `VsrNet.step`."""
        trunk = chosen.trunk
        y = F.relu(_conv(self.full.head, space_to_depth(x, chosen.packing), trunk))
        if chosen.history:
            y = y + _conv(self.full.join, first_history(y, chosen.history) if kept is None else kept, trunk)
        for block, stage in self._kept(chosen):
            middle = F.relu(_conv(block.expand, y, stage.mid, stage.kernel))
            y = y + _conv(block.project, middle, trunk, stage.kernel)
            y = F.relu(y) if block.rectified else y
        residual = _conv(self.full.tail, y, self.full.tail.out_channels)
        image = F.pixel_shuffle(residual, chosen.spreading) + anchor(x)
        return image, F.relu(_conv(self.full.keep, y, chosen.history)) if chosen.history else None

    def extract(self, architecture: Architecture) -> VsrNet:
        """A stand-alone copy of one slice."""
        if not self.space.contains(architecture):
            raise ValueError(f"{architecture.to_json()} is not in the supernet's space {self.space}")
        net = VsrNet(architecture)
        with torch.no_grad():
            _copy(self.full.head, net.head)
            _copy(self.full.tail, net.tail)
            if architecture.history:
                _copy(self.full.join, net.join)
                _copy(self.full.keep, net.keep)
            for (source, _), target in zip(self._kept(architecture), net.blocks, strict=True):
                assert isinstance(target, ResidualBlock)
                _copy(source.expand, target.expand)
                _copy(source.project, target.project)
        return net

    def sort_channels(self) -> None:
        """Order the inner channels of each block by importance (L1 of weights in times weights out), largest first."""
        with torch.no_grad():
            for block in self.full.blocks:
                assert isinstance(block, ResidualBlock)
                weight_in = weight_of(block.expand).abs().sum(dim=(1, 2, 3))
                order = torch.argsort(weight_in * weight_of(block.project).abs().sum(dim=(0, 2, 3)), descending=True)
                for part in parts_of(block.expand):
                    part.copy_(part[order].clone())
                assert block.expand.bias is not None
                block.expand.bias.copy_(block.expand.bias[order].clone())
                for part in parts_of(block.project):
                    part.copy_(part[:, order].clone())

    def _kept(self, architecture: Architecture) -> list[tuple[ResidualBlock, Stage]]:
        per_stage = max(self.space.depths)
        kept: list[tuple[ResidualBlock, Stage]] = []
        for index, stage in enumerate(architecture.stages):
            for position in range(stage.depth):
                block = self.full.blocks[index * per_stage + position]
                assert isinstance(block, ResidualBlock)
                kept.append((block, stage))
        return kept


def save_supernet(supernet: Supernet, path: Path) -> str:
    """Write weights as float16 npz (deterministic bytes); returns the SHA-256 of the file."""
    arrays = {name: value.detach().to(torch.float16).numpy() for name, value in supernet.state_dict().items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, space=np.frombuffer(_space_text(supernet.space).encode(), np.uint8), **arrays)
    temporary = path.with_suffix(".part")
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(path)
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def load_supernet(path: Path) -> Supernet:
    """Inverse of `save_supernet`; weights are promoted to float32."""
    with np.load(path, allow_pickle=False) as archive:
        supernet = Supernet(_space_of(bytes(archive["space"]).decode()))
        state = {name: torch.from_numpy(archive[name].astype(np.float32)) for name in archive.files if name != "space"}
    supernet.load_state_dict(state)
    return supernet


def _space_text(space: Space) -> str:
    lists = [space.trunks, space.depths, space.mids, space.kernels, (space.stages,)]
    if space.histories != (0,) or space.fine:
        lists.append(space.histories)
    if space.fine:
        lists.append((1,))  # its being there says it
    return ";".join(",".join(map(str, values)) for values in lists)


def _space_of(text: str) -> Space:
    trunks, depths, mids, kernels, stages, *rest = (tuple(map(int, part.split(","))) for part in text.split(";"))
    histories = rest[0] if rest else (0,)
    return Space(trunks, depths, mids, kernels, stages[0], histories, fine=len(rest) > 1)


def _conv(conv: nn.Conv2d, x: Tensor, out_channels: int, kernel: int | None = None) -> Tensor:
    size = kernel or conv.kernel_size[0]
    assert conv.bias is not None
    return F.conv2d(x, _slice(conv.weight, out_channels, x.shape[1], size), conv.bias[:out_channels], padding=size // 2)


def _slice(weight: Tensor, out_channels: int, in_channels: int, kernel: int) -> Tensor:
    margin = (weight.shape[-1] - kernel) // 2
    return weight[:out_channels, :in_channels, margin : margin + kernel, margin : margin + kernel]


def _copy(source: nn.Conv2d, target: nn.Conv2d) -> None:
    out_channels, in_channels, kernel, _ = target.weight.shape
    target.weight.copy_(_slice(source.weight, out_channels, in_channels, kernel))
    assert source.bias is not None
    assert target.bias is not None
    target.bias.copy_(source.bias[:out_channels])
