"""Binds convolutions to two places: by a compiled kernel where the constants are steady, else by reading the
arena in every frame.

All stripes of one layer share its constants, so a kernel is looked up once for each window (a layer has at
most three: top, inside and bottom of the map).
"""

from __future__ import annotations

from edge_agent.runtime.npu.clamping import clamp_steps
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes, ConvolutionKernel, Engine, Step
from edge_agent.runtime.npu.engines.numpy_engine import NumpyEngine
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.weights import Constants, constant_ranges, convolution_tensors, read_constants
from edge_agent.runtime.npu.windows import Window

_REMEDY = "the program's memory plan is wrong; compile again and report the build"
_Key = tuple[Constants, Window, int, int, tuple[int, int], int]


class Convolutions:
    """The convolutions of one profile."""

    def __init__(self, sram: Bytes, engine: Engine) -> None:
        self._sram = sram
        self._engine = engine
        self._kernels: dict[_Key, ConvolutionKernel] = {}

    def bind(self, command: Command, constants: Constants | None, source: Bytes, target: Bytes) -> tuple[Step, ...]:
        """Return the steps of `command` from contiguous `source` to contiguous `target`."""
        size = command.window.output_size(source.shape[0], source.shape[1])
        if size != target.shape[:2]:
            raise PlanViolation(f"a result of {size[0]}x{size[1]} for {target.shape}", command.where, _REMEDY)
        if constants is None:
            run = self._streamed(command, source, target)
        else:
            run = self._kernel(command, constants).bind(source, target)
        return (run, *clamp_steps(target, command.clamp))

    def _kernel(self, command: Command, constants: Constants) -> ConvolutionKernel:
        zero_points = (command.input_zero_point, command.output_zero_point)
        channels = (command.source.logical[2], command.target.logical[2])
        key = (constants, command.window, *zero_points, channels, command.weights_row)
        if key not in self._kernels:
            tensors = convolution_tensors(command, constants)
            self._kernels[key] = self._engine.convolution(tensors, command.window, *zero_points)
        return self._kernels[key]

    def _streamed(self, command: Command, source: Bytes, target: Bytes) -> Step:
        ranges = constant_ranges(command)
        zero_points = (command.input_zero_point, command.output_zero_point)

        def step() -> None:
            tensors = convolution_tensors(command, read_constants(self._sram, ranges))
            NumpyEngine().convolution(tensors, command.window, *zero_points).bind(source, target)()

        return step
