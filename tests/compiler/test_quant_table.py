"""The quantisation table: multipliers, alignment, and the last checks of the arithmetic contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import BadQuantization, DoesNotFit
from compiler.ir import Conv, Graph
from compiler.passes.quant_table import QuantTableBuilder
from contracts.npu import load_spec
from tests.compiler.helpers import imported
from tests.support.models import single_conv_qdq

SPEC = load_spec("npu-4t")


def conv_of(graph: Graph) -> Conv:
    conv = graph.operators[0]
    assert isinstance(conv, Conv)
    return conv


def with_conv(graph: Graph, **changes: object) -> Graph:
    return replace(graph, operators=(replace(conv_of(graph), **changes), *graph.operators[1:]))  # type: ignore[arg-type]


def test_the_multiplier_is_rounded_as_the_text_says() -> None:
    graph = imported(single_conv_qdq(relu=False))
    conv = conv_of(graph)
    table = QuantTableBuilder(SPEC).run(graph)
    row = np.frombuffer(table.data, "<f4", count=16, offset=table.offsets[conv.name])
    source = np.float32(graph.values[conv.source].scale)
    expected = (source * conv.weight_scale).astype(np.float32) / np.float32(conv.scale)
    np.testing.assert_array_equal(row, expected.astype(np.float32))


def test_rows_are_aligned() -> None:
    builder = QuantTableBuilder(SPEC)
    assert builder.ensures(builder.run(imported(single_conv_qdq(outputs=33, relu=False)))) is None


def test_an_accumulator_that_may_leave_32_bits_is_refused() -> None:
    graph = with_conv(imported(single_conv_qdq(relu=False)), bias=np.full(16, 2**31 - 5, np.int32))
    with pytest.raises(BadQuantization, match=r"conv_Conv: accumulators may reach \d+"):
        QuantTableBuilder(SPEC).run(graph)


def test_a_multiplier_of_zero_is_refused() -> None:
    graph = with_conv(imported(single_conv_qdq(relu=False)), weight_scale=np.full(16, 1e-38, np.float32))
    with pytest.raises(BadQuantization, match="multiplier is zero or not finite"):
        QuantTableBuilder(SPEC).run(graph)


def test_a_table_larger_than_its_zone_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="the zone has 64"):
        QuantTableBuilder(replace(SPEC, quant_zone_bytes=64)).run(imported(single_conv_qdq(outputs=17, relu=False)))
