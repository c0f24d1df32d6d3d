"""Decodes one COMMAND of the stream into plain values, and checks what can be checked without memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH, Op, Space
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.regions import Region, decode_region
from edge_agent.runtime.npu.requantize import AddParameters
from edge_agent.runtime.npu.windows import Window


@dataclass(frozen=True)
class Clamp:
    """The range that a result is cut to."""

    low: int
    high: int


@dataclass(frozen=True)
class Command:
    """One decoded command; regions that the operation does not use are None."""

    index: int
    op: Op
    launch: bool
    dispatch: bool
    kernel: int
    event: int
    wait: int
    source: Region
    residual: Region | None
    target: Region
    window: Window
    weights_offset: int
    bias_offset: int
    quant_offset: int
    weight_zero_offset: int
    input_zero_point: int
    output_zero_point: int
    clamp: Clamp
    addition: AddParameters
    addition_clamp: Clamp

    @property
    def where(self) -> str:
        """A name for error messages."""
        return f"command {self.index} {self.op.name}"


def decode_stream(stream: np.ndarray[tuple[int, ...], np.dtype[np.void]]) -> list[Command]:
    """Decode up to END; raises PlanViolation naming the command."""
    commands = []
    for index, raw in enumerate(stream):
        if raw["op"] == Op.END:
            break
        commands.append(_decode(index, raw))
    return commands


def _decode(index: int, raw: np.void) -> Command:
    where = f"command {index}"
    if int(raw["op"]) not in tuple(Op):
        raise PlanViolation(f"unknown operation {int(raw['op'])}", where, "compile for this device's format")
    op = Op(int(raw["op"]))
    value = {name: int(raw[name]) for name in _INTEGERS}
    window = Window(*(value[name] for name in _WINDOW))
    if op is Op.CONV and min(value[name] for name in ("kh", "kw", "sh", "sw", "dh", "dw", "groups")) < 1:
        raise PlanViolation(f"a convolution with {window}", where, "compile the model again")
    used = raw["residual"]["space"] != Space.NONE
    return Command(
        index=index,
        op=op,
        launch=bool(value["flags"] & FLAG_LAUNCH),
        dispatch=bool(value["flags"] & FLAG_DISPATCH),
        kernel=value["kernel"],
        event=value["event"],
        wait=value["wait"],
        source=decode_region(raw["src"], f"{where} {op.name} source"),
        residual=decode_region(raw["residual"], f"{where} {op.name} residual") if used else None,
        target=decode_region(raw["dst"], f"{where} {op.name} target"),
        window=window,
        weights_offset=value["weights_offset"],
        bias_offset=value["bias_offset"],
        quant_offset=value["quant_offset"],
        weight_zero_offset=value["weight_zp_offset"],
        input_zero_point=value["input_zp"],
        output_zero_point=value["out_zp"],
        clamp=Clamp(value["clamp_lo"], value["clamp_hi"]),
        addition=AddParameters(
            a_scale=float(raw["a_scale"]),
            b_scale=float(raw["b_scale"]),
            c_scale=float(raw["c_scale"]),
            a_zero_point=value["a_zp"],
            b_zero_point=value["b_zp"],
            c_zero_point=value["c_zp"],
        ),
        addition_clamp=Clamp(value["add_lo"], value["add_hi"]),
    )


_WINDOW = ("kh", "kw", "sh", "sw", "dh", "dw", "pt", "pb", "pl", "pr", "groups")
_INTEGERS = (
    *_WINDOW, "flags", "kernel", "event", "wait", "weights_offset", "bias_offset", "quant_offset",
    "weight_zp_offset", "input_zp", "out_zp", "clamp_lo", "clamp_hi",
    "a_zp", "b_zp", "c_zp", "add_lo", "add_hi",
)  # fmt: skip
