"""A profile: one input size of a program, with what the device must know to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contracts.npu.errors import DamagedProgram


@dataclass(frozen=True)
class OutputTensor:
    """One output: uint8 NHWC image at ``ddr_offset`` of the DDR array; real = (q - zero_point) * scale."""

    name: str
    height: int
    width: int
    channels: int
    scale: float
    zero_point: int
    ddr_offset: int


@dataclass(frozen=True)
class StateTensor:
    """What a program keeps from one frame to the next: a uint8 NHWC image at ``ddr_offset``, filled with the zero
    point before the first frame of a stream.
    """

    name: str
    height: int
    width: int
    channels: int
    scale: float
    zero_point: int
    ddr_offset: int


@dataclass(frozen=True)
class Profile:
    """One input size. The input frame is uint8 NHWC at ``input_offset`` of the DDR array.

    ``n_prologue`` commands at the head of the stream run once at load or profile switch; ``ddr_extent`` is
    the DDR array's size, ``ddr_bytes`` the traffic of one frame (prologue left out), ``sram_peak`` the
    highest byte used. With several ``streams`` input and outputs are that many maps below each other, each one a frame
    of its own.
    """

    name: str
    input_height: int
    input_width: int
    input_channels: int
    input_scale: float
    input_zero_point: int
    input_offset: int
    outputs: tuple[OutputTensor, ...]
    n_prologue: int
    ddr_extent: int
    ddr_bytes: int
    sram_peak: int
    streams: int = 1
    states: tuple[StateTensor, ...] = ()

    @property
    def input(self) -> tuple[int, int, int]:
        """Height, width, channels of the input frame."""
        return self.input_height, self.input_width, self.input_channels

    @staticmethod
    def parse(raw: dict[str, Any]) -> Profile:  # Any: straight from JSON
        """A profile from its JSON object; raises :class:`DamagedProgram`."""
        try:
            outputs = tuple(OutputTensor(**output) for output in raw["outputs"])
            states = tuple(StateTensor(**state) for state in raw.get("states", ()))
            return Profile(**{**raw, "outputs": outputs, "states": states})
        except (TypeError, KeyError) as error:
            raise DamagedProgram(f"program section PROFILES: {error}; compile the model again") from error
