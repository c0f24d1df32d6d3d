"""Architecture of one x2 network, and the space that the supernet spans.

A network is: SpaceToDepth(2) -> head conv -> stages of residual blocks -> tail conv -> DepthToSpace(4) + nearest
anchor. A stage is (depth, mid, kernel): how many blocks it has, how wide each block is inside, and its kernel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from flows.limits import LIMITS

SCALE = 2
S2D_BLOCK = 2
D2S_BLOCK = SCALE * S2D_BLOCK
HEAD_CHANNELS = 3 * S2D_BLOCK**2
TAIL_CHANNELS = 3 * D2S_BLOCK**2


@dataclass(frozen=True)
class Stage:
    """Consecutive residual blocks of equal shape."""

    depth: int
    mid: int
    kernel: int = 3


@dataclass(frozen=True)
class Architecture:
    """Trunk width, stages, and channels kept for the next frame (0: every frame for itself); the rest is fixed."""

    trunk: int
    stages: tuple[Stage, ...]
    history: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.trunk <= LIMITS.max_channels:
            raise ValueError(f"trunk {self.trunk} is outside 1..{LIMITS.max_channels}")
        if not 0 <= self.history <= LIMITS.max_channels:
            raise ValueError(f"history {self.history} is outside 0..{LIMITS.max_channels}")
        for stage in self.stages:
            if stage.kernel not in (3, 5) or stage.depth < 0 or not 0 < stage.mid <= LIMITS.max_channels:
                raise ValueError(f"{stage}: kernel must be 3 or 5, depth >= 0, mid in 1..{LIMITS.max_channels}")
        if self.depth > LIMITS.max_blocks:
            raise ValueError(f"{self.depth} blocks, limit {LIMITS.max_blocks}")

    @property
    def depth(self) -> int:
        """Residual blocks in all stages."""
        return sum(stage.depth for stage in self.stages)

    @property
    def blocks(self) -> tuple[Stage, ...]:
        """One entry per block, in order (its `depth` is that of its stage)."""
        return tuple(stage for stage in self.stages for _ in range(stage.depth))

    def macs(self, height: int, width: int) -> int:
        """Multiply-accumulates for one low-resolution frame of height x width."""
        pixels = (height // S2D_BLOCK) * (width // S2D_BLOCK)
        per_pixel = 9 * self.trunk * (HEAD_CHANNELS + TAIL_CHANNELS + 2 * self.history)
        for block in self.blocks:
            per_pixel += 2 * block.kernel * block.kernel * self.trunk * block.mid
        return pixels * per_pixel

    def parameters(self) -> int:
        """Weights and biases."""
        ends = 9 * self.trunk * (HEAD_CHANNELS + TAIL_CHANNELS) + self.trunk + TAIL_CHANNELS
        if self.history:
            ends += 18 * self.trunk * self.history + self.trunk + self.history
        return ends + sum(2 * b.kernel * b.kernel * self.trunk * b.mid + b.mid + self.trunk for b in self.blocks)

    def to_json(self) -> str:
        """{"trunk": 16, "stages": [[depth, mid, kernel], ...]}, and "history" where there is one."""
        kept = {"history": self.history} if self.history else {}
        return json.dumps({"trunk": self.trunk, "stages": [[s.depth, s.mid, s.kernel] for s in self.stages], **kept})

    @staticmethod
    def from_json(text: str) -> Architecture:
        """Inverse of `to_json`."""
        raw = json.loads(text)
        return Architecture(
            int(raw["trunk"]), tuple(Stage(*map(int, stage)) for stage in raw["stages"]), int(raw.get("history", 0))
        )


@dataclass(frozen=True)
class Space:
    """Choices of the supernet, the same for each stage; `depths` are blocks kept of `max(depths)`."""

    trunks: tuple[int, ...] = (16,)
    depths: tuple[int, ...] = (0, 1, 2)
    mids: tuple[int, ...] = (8, 16, 32, 48)
    kernels: tuple[int, ...] = (3,)
    stages: int = 3
    histories: tuple[int, ...] = (0,)

    @property
    def largest(self) -> Architecture:
        """The network that owns all weights."""
        return self._filled(max(self.trunks), Stage(max(self.depths), max(self.mids), max(self.kernels)))

    @property
    def smallest(self) -> Architecture:
        """The other end of the sandwich: at least one block, so that it is a network."""
        first = Stage(max(1, min(self.depths)), min(self.mids), min(self.kernels))
        rest = Stage(min(self.depths), min(self.mids), min(self.kernels))
        return Architecture(min(self.trunks), (first, *(rest for _ in range(self.stages - 1))), min(self.histories))

    @property
    def size(self) -> int:
        """Number of gene strings (some differ only in stages without blocks)."""
        choices = len(self.depths) * len(self.mids) * len(self.kernels)
        return int(len(self.trunks) * len(self.histories) * choices**self.stages)

    def contains(self, architecture: Architecture) -> bool:
        """Whether the supernet can yield this network."""
        return (
            architecture.trunk in self.trunks
            and architecture.history in self.histories
            and len(architecture.stages) == self.stages
            and all(
                s.depth in self.depths and s.mid in self.mids and s.kernel in self.kernels for s in architecture.stages
            )
        )

    def sample(self, random: np.random.Generator) -> Architecture:
        """A random member with at least one block."""
        stage_choices = list(product(self.depths, self.mids, self.kernels))
        while True:
            picked = tuple(Stage(*stage_choices[random.integers(len(stage_choices))]) for _ in range(self.stages))
            if any(stage.depth for stage in picked):
                trunk = int(random.choice(self.trunks))
                kept = int(random.choice(self.histories)) if len(self.histories) > 1 else self.histories[0]
                return Architecture(trunk, picked, kept)

    def _filled(self, trunk: int, stage: Stage) -> Architecture:
        return Architecture(trunk, tuple(stage for _ in range(self.stages)), max(self.histories))


HAND_MADE = Architecture(16, (Stage(2, 8), Stage(1, 8), Stage(1, 8)))
DEFAULT_SPACE = Space()
"""What the demo searches on a laptop: one trunk, 3x3 kernels."""

WIDE_SPACE = Space(trunks=(8, 16, 24, 32, 48), mids=(8, 16, 24, 32, 48), kernels=(3, 5))
"""Everything elastic but history: trunk, and depth, width and kernel of each stage. 135,000 gene strings."""

RECURRENT_SPACE = replace(WIDE_SPACE, histories=(0, 8))
"""The same, with or without eight channels that are kept for the next frame."""
