"""Architecture of one x2 network, and the space that the supernet spans.

A network is: SpaceToDepth(2) -> head conv -> stages of residual blocks -> tail conv -> DepthToSpace(4) + nearest
anchor. A stage is (depth, mid, kernel): how many blocks it has, how wide each block is inside, and its kernel.

A fine network works at the frame's own resolution: no SpaceToDepth, a 1x1 head, ReLU behind every block's sum,
DepthToSpace(2). Four times the positions at a quarter of the weights: what a hand-made net of plain convolutions is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from flows.limits import LIMITS

SCALE = 2
S2D_BLOCK = 2


@dataclass(frozen=True)
class Stage:
    """Consecutive residual blocks of equal shape."""

    depth: int
    mid: int
    kernel: int = 3


@dataclass(frozen=True)
class Architecture:
    """Trunk width, stages, channels kept for the next frame (0: every frame for itself), and whether it is fine."""

    trunk: int
    stages: tuple[Stage, ...]
    history: int = 0
    fine: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.trunk <= LIMITS.max_channels:
            raise ValueError(f"trunk {self.trunk} is outside 1..{LIMITS.max_channels}")
        if not 0 <= self.history <= LIMITS.max_channels:
            raise ValueError(f"history {self.history} is outside 0..{LIMITS.max_channels}")
        if self.fine and self.history:
            raise ValueError("a fine network keeps no history; its features are four times as large as those of others")
        for stage in self.stages:
            if stage.kernel not in (3, 5) or stage.depth < 0 or not 0 < stage.mid <= LIMITS.max_channels:
                raise ValueError(f"{stage}: kernel must be 3 or 5, depth >= 0, mid in 1..{LIMITS.max_channels}")
        if self.depth > LIMITS.max_blocks:
            raise ValueError(f"{self.depth} blocks, limit {LIMITS.max_blocks}")

    @property
    def packing(self) -> int:
        """Block of the SpaceToDepth in front of the head, 1 for none."""
        return 1 if self.fine else S2D_BLOCK

    @property
    def spreading(self) -> int:
        """Block of the DepthToSpace behind the tail."""
        return SCALE * self.packing

    @property
    def head_channels(self) -> int:
        """Channels that the head reads."""
        return 3 * self.packing**2

    @property
    def tail_channels(self) -> int:
        """Channels that the tail writes."""
        return 3 * self.spreading**2

    @property
    def head_kernel(self) -> int:
        """Side of the head's kernel."""
        return 1 if self.fine else 3

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
        pixels = (height // self.packing) * (width // self.packing)
        per_pixel = self._end_weights()
        if self.history:
            per_pixel += 18 * self.trunk * self.history
        for block in self.blocks:
            per_pixel += 2 * block.kernel * block.kernel * self.trunk * block.mid
        return pixels * per_pixel

    def parameters(self) -> int:
        """Weights and biases."""
        ends = self._end_weights() + self.trunk + self.tail_channels
        if self.history:
            ends += 18 * self.trunk * self.history + self.trunk + self.history
        return ends + sum(2 * b.kernel * b.kernel * self.trunk * b.mid + b.mid + self.trunk for b in self.blocks)

    def to_json(self) -> str:
        """{"trunk": 16, "stages": [[depth, mid, kernel], ...]}, "history" where there is one, "fine" where it is."""
        more = {name: value for name, value in (("history", self.history), ("fine", self.fine)) if value}
        return json.dumps({"trunk": self.trunk, "stages": [[s.depth, s.mid, s.kernel] for s in self.stages], **more})

    @staticmethod
    def from_json(text: str) -> Architecture:
        """Inverse of `to_json`."""
        raw = json.loads(text)
        stages = tuple(Stage(*map(int, stage)) for stage in raw["stages"])
        return Architecture(int(raw["trunk"]), stages, int(raw.get("history", 0)), bool(raw.get("fine", False)))

    def _end_weights(self) -> int:
        """Weights of head and tail."""
        return self.trunk * (self.head_kernel**2 * self.head_channels + 9 * self.tail_channels)


@dataclass(frozen=True)
class Space:
    """Choices of the supernet, the same for each stage; `depths` are blocks kept of `max(depths)`."""

    trunks: tuple[int, ...] = (16,)
    depths: tuple[int, ...] = (0, 1, 2)
    mids: tuple[int, ...] = (8, 16, 32, 48)
    kernels: tuple[int, ...] = (3,)
    stages: int = 3
    histories: tuple[int, ...] = (0,)
    fine: bool = False

    def network(self, trunk: int, stages: tuple[Stage, ...], history: int = 0) -> Architecture:
        """A network of the space's kind; whether it is a member is not asked."""
        return Architecture(trunk, stages, history, self.fine)

    @property
    def largest(self) -> Architecture:
        """The network that owns all weights."""
        return self._filled(max(self.trunks), Stage(max(self.depths), max(self.mids), max(self.kernels)))

    @property
    def smallest(self) -> Architecture:
        """The other end of the sandwich: at least one block, so that it is a network."""
        first = Stage(max(1, min(self.depths)), min(self.mids), min(self.kernels))
        rest = Stage(min(self.depths), min(self.mids), min(self.kernels))
        return self.network(min(self.trunks), (first, *(rest for _ in range(self.stages - 1))), min(self.histories))

    @property
    def size(self) -> int:
        """Number of gene strings (some differ only in stages without blocks)."""
        choices = len(self.depths) * len(self.mids) * len(self.kernels)
        return int(len(self.trunks) * len(self.histories) * choices**self.stages)

    def contains(self, architecture: Architecture) -> bool:
        """Whether the supernet can yield this network."""
        return (
            architecture.fine == self.fine
            and architecture.trunk in self.trunks
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
                return self.network(trunk, picked, kept)

    def _filled(self, trunk: int, stage: Stage) -> Architecture:
        return self.network(trunk, tuple(stage for _ in range(self.stages)), max(self.histories))


HAND_MADE = Architecture(16, (Stage(2, 8), Stage(1, 8), Stage(1, 8)))
DEFAULT_SPACE = Space()
"""What the demo searches on a laptop: one trunk, 3x3 kernels."""

WIDE_SPACE = Space(trunks=(8, 16, 24, 32, 48), mids=(8, 16, 24, 32, 48), kernels=(3, 5))
"""Everything elastic but history: trunk, and depth, width and kernel of each stage. 135,000 gene strings."""

RECURRENT_SPACE = replace(WIDE_SPACE, histories=(0, 8))
"""The same, with or without eight channels that are kept for the next frame."""

FINE_SPACE = Space(trunks=(8, 16), depths=(0, 1), mids=(8, 16, 24, 32), fine=True)
"""Networks at the frame's own resolution: what a device affords that runs a plain net of six convolutions."""
