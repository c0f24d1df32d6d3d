"""The quantisation table: one float32 multiplier for each output channel of each convolution, 128-byte
aligned rows.

Also the last checks of the arithmetic contract: accumulators fit 32 bits, multipliers are finite and
positive, the ratios of additions lie in the range in which the text is exact, the table fits the SRAM zone of
the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.errors import BadQuantization, DoesNotFit
from compiler.ir import Add, Conv, Graph, Host, Mul, Pool, flat
from contracts.npu import NpuSpec

_AGAIN = "quantise the model again"
_RATIO_LOW, _RATIO_HIGH = 2.0**-14, 2.0**8


@dataclass(frozen=True)
class QuantTable:
    """The QUANT section and where each convolution's row lies in it."""

    data: bytes
    offsets: Mapping[str, int]


class QuantTableBuilder:
    """Builds the table; the graph stays as it is."""

    name = "quant-table"

    def __init__(self, spec: NpuSpec) -> None:
        self._spec = spec

    def requires(self, graph: Graph) -> str | None:
        """Convolution names are unique."""
        names = [conv.name for conv in _convolutions(graph)]
        return None if len(set(names)) == len(names) else "two convolutions have the same name"

    def run(self, graph: Graph) -> QuantTable:
        """Rows in execution order; raises BadQuantization or DoesNotFit."""
        data = bytearray()
        offsets: dict[str, int] = {}
        for conv in _convolutions(graph):
            offsets[conv.name] = len(data)
            data += _row(graph, conv).tobytes()
            data += bytes(-len(data) % self._spec.alignment)
        for operator in flat(graph.operators):
            _check_ratios(graph, operator)
        if len(data) > self._spec.quant_zone_bytes:
            reason = f"quantisation table of {len(data)} bytes, the zone has {self._spec.quant_zone_bytes}"
            raise DoesNotFit("model", reason, "use fewer channels or convolutions")
        return QuantTable(bytes(data), offsets)

    def ensures(self, table: QuantTable) -> str | None:
        """Aligned rows."""
        bad = [name for name, offset in table.offsets.items() if offset % self._spec.alignment]
        return f"row of {bad[0]} is misaligned" if bad else None


def _convolutions(graph: Graph) -> Iterator[Conv]:
    for operator in flat(graph.operators):
        if isinstance(operator, Conv):
            yield operator
        elif isinstance(operator, Host) and operator.convolution is not None:
            yield operator.convolution


def _row(graph: Graph, conv: Conv) -> npt.NDArray[np.float32]:
    worst = _worst_accumulator(graph, conv)
    if worst >= 2**31:
        reason = f"accumulators may reach {worst}, 32 bits hold {2**31 - 1}"
        raise BadQuantization(conv.name, reason, "use fewer input channels or a smaller bias")
    product = (np.float32(graph.values[conv.source].scale) * conv.weight_scale).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        row = (product / np.float32(conv.scale)).astype(np.float32)
    if not np.isfinite(row).all() or (row < np.finfo(np.float32).tiny).any():
        raise BadQuantization(conv.name, "a requantisation multiplier is zero or not finite", _AGAIN)
    return row


def _worst_accumulator(graph: Graph, conv: Conv) -> int:
    zero = graph.values[conv.source].zero_point
    weights = conv.weights.astype(np.int64) - conv.weight_zero_point.astype(np.int64)[:, None, None, None]
    mass = np.abs(weights).reshape(len(weights), -1).sum(axis=1) * max(zero, 255 - zero)
    return int((mass + np.abs(conv.bias.astype(np.int64))).max(initial=0))


def _check_ratios(graph: Graph, operator: object) -> None:
    if isinstance(operator, Conv) and operator.residual is not None:
        a, b, name = operator.scale, graph.values[operator.residual.value].scale, operator.name
        result = graph.values[operator.result].scale
    elif isinstance(operator, Add):
        a, b, name = graph.values[operator.a].scale, graph.values[operator.b].scale, operator.name
        result = graph.values[operator.result].scale
    else:
        _check_multipliers(graph, operator)
        return
    ratios = [np.float32(scale) / np.float32(result) for scale in (a, b)]
    if not all(_RATIO_LOW <= ratio < _RATIO_HIGH for ratio in ratios):
        reason = f"operand scales {a:.3g} and {b:.3g} against the sum's {result:.3g}"
        raise BadQuantization(name, reason, "keep both ratios within 2^-14 and 2^8")


def _check_multipliers(graph: Graph, operator: object) -> None:
    """Products, averages and host operators rescale by one factor, which has to be a float32 number."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        if isinstance(operator, Mul) or (isinstance(operator, Host) and operator.b):
            scales = [np.float32(graph.values[name].scale) for name in operator.reads]
            factor = np.float32(np.float32(scales[0] * scales[-1]) / np.float32(graph.values[operator.result].scale))
        elif isinstance(operator, Pool):
            factor = np.float32(graph.values[operator.source].scale) / np.float32(graph.values[operator.result].scale)
        else:
            return
    if not np.isfinite(factor) or factor < np.finfo(np.float32).tiny:
        reason = "the factor between operand and result scales is zero or not finite"
        raise BadQuantization(operator.name, reason, _AGAIN)
