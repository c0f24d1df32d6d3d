"""What the reference nets are: extents, convolutions, MACs, and how their operators are counted.

Space-to-Depth -> conv 3x3 -> ReLU -> blocks of [conv 3x3, ReLU, conv 3x3, Add] -> conv 3x3 -> PixelShuffle, which
enlarges the frame two times. 640 x 360 is the input of a video call.
"""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = 3
TAPS = 9
ENLARGEMENT = 2


@dataclass(frozen=True)
class ConvShape:
    """One 3x3 convolution."""

    name: str
    inputs: int
    outputs: int

    @property
    def parameters(self) -> int:
        """Weights, without the bias."""
        return TAPS * self.inputs * self.outputs


@dataclass(frozen=True)
class NetShape:
    """One net. `space_to_depth` is the block of the head; the tail's PixelShuffle has twice that."""

    name: str
    channels: int
    blocks: int
    space_to_depth: int
    height: int = 360
    width: int = 640

    @property
    def shuffle(self) -> int:
        """Block of the PixelShuffle."""
        return self.space_to_depth * ENLARGEMENT

    @property
    def positions(self) -> int:
        """Pixels of the trunk."""
        return self.height * self.width // self.space_to_depth**2

    @property
    def convolutions(self) -> tuple[ConvShape, ...]:
        """All convolutions in order."""
        width = self.channels
        names = [f"block{index}_{part}" for index in range(self.blocks) for part in ("a", "b")]
        return (
            ConvShape("head", COLOURS * self.space_to_depth**2, width),
            *(ConvShape(name, width, width) for name in names),
            ConvShape("tail", width, COLOURS * self.shuffle**2),
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one frame."""
        return self.positions * self.parameters

    @property
    def parameters(self) -> int:
        """Weights, without biases."""
        return sum(conv.parameters for conv in self.convolutions)

    @property
    def operators(self) -> dict[str, int]:
        """Operators before fusion as the exported graph has them, quantisation nodes left out."""
        return {
            "SpaceToDepth": 1,
            "Conv": 2 + 2 * self.blocks,
            "Relu": 1 + self.blocks,
            "Add": self.blocks,
            "DepthToSpace": 1,
        }

    @property
    def training_operators(self) -> int:
        """Operators of the graph as it is trained: a batch normalisation behind each convolution but the tail's."""
        return sum(self.operators.values()) + 1 + 2 * self.blocks

    def counting(self) -> str:
        """How `training_operators` comes about, in words."""
        parts = ", ".join(f"{count} {name}" for name, count in self.operators.items())
        norms = 1 + 2 * self.blocks
        total = self.training_operators
        return f"{parts} = {total - norms}; with {norms} BatchNormalization (not behind the tail) {total}"

    def resized(self, height: int, width: int) -> NetShape:
        """The same net for other frames."""
        return NetShape(self.name, self.channels, self.blocks, self.space_to_depth, height, width)


NETS: tuple[NetShape, ...] = (
    NetShape("c64x16", 64, 16, 2),
    NetShape("c88x8", 88, 8, 2),
    NetShape("c64x8", 64, 8, 2),
    NetShape("c32x8", 32, 8, 2),
    NetShape("c64x8-s2d4", 64, 8, 4),
)


def net_named(name: str) -> NetShape:
    """One of NETS; raises KeyError with the known names."""
    for net in NETS:
        if net.name == name:
            return net
    raise KeyError(f"no reference net {name!r}; known: {', '.join(net.name for net in NETS)}")
