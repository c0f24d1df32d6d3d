"""The plain x2 net of the quantisation bench: six 3 x 3 convolutions of 16 channels, PixelShuffle, nearest anchor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

SCALE = 2
CHANNELS, DEPTH = 16, 6


class PlainNet(nn.Module):
    """Float RGB [n, 3, h, w] in 0..1 -> [n, 3, 2h, 2w], not clamped; 11,468 parameters."""

    def __init__(self, channels: int = CHANNELS, depth: int = DEPTH) -> None:
        super().__init__()
        widths = [3, *[channels] * (depth - 1), 3 * SCALE**2]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:], strict=False))
        for conv in self.convs:
            assert isinstance(conv, nn.Conv2d)
            assert conv.bias is not None
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)
        with torch.no_grad():
            self.convs[-1].weight.mul_(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """The enlarged picture."""
        y = x
        for conv in self.convs[:-1]:
            y = F.relu(conv(y))
        return F.pixel_shuffle(self.convs[-1](y), SCALE) + enlarged(x)


def enlarged(x: Tensor) -> Tensor:
    """Each pixel twice in both directions."""
    nearest: Tensor = F.interpolate(x, scale_factor=float(SCALE), mode="nearest")
    return nearest


def save_plain(net: PlainNet, path: Path) -> Path:
    """float32 weights by name in an npz."""
    temporary = path.with_suffix(".part.npz")
    np.savez(
        temporary, **{name: value.detach().float().contiguous().numpy() for name, value in net.state_dict().items()}
    )
    return temporary.replace(path)


def load_plain(path: Path) -> PlainNet:
    """The net of `save_plain`."""
    with np.load(path, allow_pickle=False) as stored:
        values = {name: torch.from_numpy(stored[name]) for name in stored.files}
    depth = len(values) // 2
    net = PlainNet(values["convs.0.weight"].shape[0], depth)
    net.load_state_dict(values)
    return net
