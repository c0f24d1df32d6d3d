"""The x2 network in torch. Input and output are float RGB in 0..1, [n, 3, h, w] -> [n, 3, 2h, 2w].

Channel orders follow ONNX: SpaceToDepth is depth-major over (row, column, channel), DepthToSpace is CRD.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.tasks.vsr.architecture import S2D_BLOCK, SCALE, Architecture
from flows.tasks.vsr.history import unrolled


def space_to_depth(x: Tensor, block: int = S2D_BLOCK) -> Tensor:
    """[n, c, h, w] -> [n, b*b*c, h/b, w/b] in ONNX channel order."""
    if block == 1:
        return x
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(n, block * block * c, h // block, w // block)


def anchor(x: Tensor) -> Tensor:
    """Nearest-neighbour x2, the part of the output that the network need not learn."""
    nearest: Tensor = F.interpolate(x, scale_factor=float(SCALE), mode="nearest")
    return nearest


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(x))), and a ReLU behind the sum where the block is `rectified`."""

    def __init__(self, trunk: int, mid: int, kernel: int, *, rectified: bool = False) -> None:
        super().__init__()
        self.rectified = rectified
        self.expand = nn.Conv2d(trunk, mid, kernel, padding=kernel // 2)
        self.project = nn.Conv2d(mid, trunk, kernel, padding=kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, trunk, h, w] -> same shape."""
        total = x + self.project(F.relu(self.expand(x)))
        return torch.as_tensor(F.relu(total) if self.rectified else total)


class VsrNet(nn.Module):
    """The network of one `Architecture`. With history, `frames` consecutive images of a batch are one clip."""

    frames = 1

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        kernel = architecture.head_kernel
        self.head = nn.Conv2d(architecture.head_channels, architecture.trunk, kernel, padding=kernel // 2)
        self.blocks = nn.ModuleList(
            ResidualBlock(architecture.trunk, block.mid, block.kernel, rectified=architecture.fine)
            for block in architecture.blocks
        )
        self.tail = nn.Conv2d(architecture.trunk, architecture.tail_channels, 3, padding=1)
        if architecture.history:
            self.join = nn.Conv2d(architecture.history, architecture.trunk, 3, padding=1)
            self.keep = nn.Conv2d(architecture.trunk, architecture.history, 3, padding=1)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB [n, 3, h, w] -> [n, 3, 2h, 2w], not clamped."""
        return unrolled(self.step, x, self.frames) if self.architecture.history else self.step(x, None)[0]

    def step(self, x: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One frame [n, 3, h, w] and what the frame before kept, [n, history, h/2, w/2] or None; the same out."""
        y = F.relu(self.head(space_to_depth(x, self.architecture.packing)))
        if self.architecture.history:
            y = y + self.join(first_history(y, self.architecture.history) if kept is None else kept)
        for block in self.blocks:
            y = block(y)
        image = F.pixel_shuffle(self.tail(y), self.architecture.spreading) + anchor(x)
        return image, F.relu(self.keep(y)) if self.architecture.history else None


def first_history(like: Tensor, channels: int) -> Tensor:
    """What the first frame of a stream reads: zeros, as large as the trunk's features."""
    return like.new_zeros(like.shape[0], channels, *like.shape[2:])


def initialise(net: nn.Module) -> None:
    """Kaiming weights scaled so that each residual branch and the tail start small."""
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
            if name.endswith(("project", "tail", "join")):
                with torch.no_grad():
                    module.weight.mul_(0.1)
