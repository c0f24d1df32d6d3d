"""The `u85-like` array model against Vela's own NPU cycles, operator by operator.

Only cycles of the MAC array are compared: memory and launches are modelled apart on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.compiling.measure import TARGET
from benchmarks.peers.vela.results import NetResult, read_results
from benchmarks.reference_nets import NETS, ConvShape, NetShape, net_named
from benchmarks.reference_nets.shape import TAPS
from contracts.npu import load_spec
from edgeloop.figures import Figure, at_most

WITHIN = 3.0


@dataclass(frozen=True)
class Comparison:
    """One convolution: cycles that we charge against those that Vela counts."""

    net: str
    operator: str
    ours: float
    theirs: float

    @property
    def percent(self) -> float:
        """How far ours is off."""
        return 100 * (self.ours / self.theirs - 1)


def charged_cycles(shape: NetShape, conv: ConvShape) -> float:
    """Cycles of the `u85-like` array for one convolution of a whole frame."""
    array = load_spec(TARGET).array_model("u85-like")
    return array.charged_macs(shape.positions, TAPS, conv.inputs, conv.outputs) / array.macs_per_cycle


def compared(result: NetResult) -> list[Comparison]:
    """All convolutions of one net."""
    shape = net_named(result.net)
    ours = {conv.name: charged_cycles(shape, conv) for conv in shape.convolutions}
    return [Comparison(result.net, row.name, ours[row.name], row.npu_cycles) for row in result.convolutions]


def figures() -> list[Figure]:
    """The worst convolution of each net, and of all."""
    results = read_results()
    found: list[Figure] = []
    worst: list[Comparison] = []
    for shape in NETS:
        rows = compared(results.net(shape.name))
        worst.append(max(rows, key=lambda row: abs(row.percent)))
        total = 100 * (sum(row.ours for row in rows) / results.net(shape.name).npu_cycles - 1)
        found.append(_off(f"u85.calibration.{shape.name}", total, f"% of the net's cycles ({len(rows)} convolutions)"))
    top = max(worst, key=lambda row: abs(row.percent))
    found.append(_off("u85.calibration.worst", top.percent, f"% at {top.net} {top.operator}"))
    return found


def _off(name: str, percent: float, unit: str) -> Figure:
    figure = at_most(name, round(abs(percent), 2), "%", WITHIN)
    return Figure(name, figure.value, unit, figure.reach, figure.ok)
