"""Decodes the COMMANDs of a stream into plain values, and checks what can be checked without memory.

Columns of the structure array are turned into lists once, because a depth-first program has thousands of
commands and a NumPy scalar costs more than the rest of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import (
    FLAG_DISPATCH,
    FLAG_GLOBAL,
    FLAG_HOST,
    FLAG_LAUNCH,
    FLAG_PER_CHANNEL,
    FLAG_RESIDUAL_FIRST,
    REGION,
    Op,
    Space,
)
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.regions import Region, make_region
from edge_agent.runtime.npu.requantize import PairParameters
from edge_agent.runtime.npu.windows import Window

Stream = NDArray[np.void]


@dataclass(frozen=True)
class Clamp:
    """The range that a result is cut to."""

    low: int
    high: int


@dataclass(frozen=True)
class Command:
    """One decoded command; regions that the operation does not use are None. `addition` has the source's facts
    as a and the residual's as b, also where `residual_first` exchanges them in the sum.
    """

    index: int
    op: Op
    launch: bool
    dispatch: bool
    per_channel: bool
    whole_map: bool
    residual_first: bool
    on_host: bool
    kernel: int
    event: int
    wait: int
    source: Region
    residual: Region | None
    target: Region
    window: Window
    weights_offset: int
    weights_row: int
    bias_offset: int
    quant_offset: int
    weight_zero_offset: int
    input_zero_point: int
    output_zero_point: int
    clamp: Clamp
    addition: PairParameters
    addition_clamp: Clamp
    mode: int

    @property
    def where(self) -> str:
        """A name for error messages."""
        return f"command {self.index} {self.op.name}"

    @property
    def reads(self) -> tuple[Region, ...]:
        """The regions of activations that the command reads."""
        return (self.source,) if self.residual is None else (self.source, self.residual)


def decode_stream(stream: Stream) -> list[Command]:
    """Decode up to END; raises PlanViolation naming the command."""
    ends = np.flatnonzero(stream["op"] == Op.END)
    stream = stream[: int(ends[0])] if len(ends) else stream
    regions = {name: _rows(stream[name], _REGION_FIELDS) for name in ("src", "residual", "dst")}
    scales = stream[list(_SCALES)].tolist()
    return [
        _decode(index, value, {name: table[index] for name, table in regions.items()}, scales[index])
        for index, value in enumerate(_rows(stream, _INTEGERS))
    ]


def _rows(structures: Stream, names: Sequence[str]) -> list[dict[str, int]]:
    columns = [structures[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _decode(
    index: int,
    value: Mapping[str, int],
    regions: Mapping[str, Mapping[str, int]],
    scales: tuple[float, float, float],
) -> Command:
    where = f"command {index}"
    if value["op"] not in tuple(Op):
        raise PlanViolation(f"unknown operation {value['op']}", where, "compile for this device's format")
    op = Op(value["op"])
    window = Window(*(value[name] for name in _WINDOW))
    if op in (Op.CONV, Op.POOL) and min(value[name] for name in _COUNTS) < 1:
        kind = "a convolution" if op is Op.CONV else "a pooling"
        raise PlanViolation(f"{kind} with {window}", where, "compile the model again")
    used = regions["residual"]["space"] != Space.NONE
    return Command(
        index=index,
        op=op,
        launch=bool(value["flags"] & FLAG_LAUNCH),
        dispatch=bool(value["flags"] & FLAG_DISPATCH),
        per_channel=bool(value["flags"] & FLAG_PER_CHANNEL),
        whole_map=bool(value["flags"] & FLAG_GLOBAL),
        residual_first=op is Op.CONV and used and bool(value["flags"] & FLAG_RESIDUAL_FIRST),
        on_host=op is Op.HOST or bool(value["flags"] & FLAG_HOST),
        kernel=value["kernel"],
        event=value["event"],
        wait=value["wait"],
        source=make_region(regions["src"], f"{where} {op.name} source"),
        residual=make_region(regions["residual"], f"{where} {op.name} residual") if used else None,
        target=make_region(regions["dst"], f"{where} {op.name} target"),
        window=window,
        weights_offset=value["weights_offset"],
        weights_row=value["weights_row"],
        bias_offset=value["bias_offset"],
        quant_offset=value["quant_offset"],
        weight_zero_offset=value["weight_zp_offset"],
        input_zero_point=value["input_zp"],
        output_zero_point=value["out_zp"],
        clamp=Clamp(value["clamp_lo"], value["clamp_hi"]),
        addition=PairParameters(
            *scales,
            a_zero_point=value["a_zp"],
            b_zero_point=value["b_zp"],
            c_zero_point=value["c_zp"],
        ),
        addition_clamp=Clamp(value["add_lo"], value["add_hi"]),
        mode=value["mode"],
    )


_REGION_FIELDS = tuple(REGION.names or ())
_COUNTS = ("kh", "kw", "sh", "sw", "dh", "dw", "groups")
_WINDOW = ("kh", "kw", "sh", "sw", "dh", "dw", "pt", "pb", "pl", "pr", "groups")
_SCALES = ("a_scale", "b_scale", "c_scale")
_INTEGERS = (
    *_WINDOW, "op", "flags", "kernel", "event", "wait", "weights_offset", "bias_offset", "quant_offset",
    "weight_zp_offset", "input_zp", "out_zp", "clamp_lo", "clamp_hi", "a_zp", "b_zp", "c_zp", "add_lo", "add_hi",
    "mode", "weights_row",
)  # fmt: skip
