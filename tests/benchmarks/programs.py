"""A reference net compiled, for tests that need a program at hand."""

from __future__ import annotations

from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import NetShape, qdq_model, quantized_net
from compiler.driver import compile_program
from contracts.npu import Program


def program_of(shape: NetShape) -> Program:
    """The net for its own frame size."""
    data, _ = compile_program(qdq_model(quantized_net(shape)), TARGET, [(shape.height, shape.width)])
    return Program.open(data)
