"""A device with an old driver refuses what the driver lacks, and names the driver that has it."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.operators.placement import MINIMUM_DRIVER, RESIDUAL_FIRST_DRIVER
from contracts.npu.program import FLAG_RESIDUAL_FIRST, Op, Program, Space
from edge_agent.runtime.npu import DriverTooOld, Faults, NpuDevice
from edge_agent.runtime.npu.drivers import lacking
from tests.edge_agent.runtime.assembler import ADD, Assembler, region, residual_net

SHAPE = (4, 4, 2)


def program(op: Op, **fields: Any) -> Program:
    build = Assembler(names=["a"])
    source, target = region(Space.DDR, 0, SHAPE), region(Space.DDR, 128, SHAPE)
    build.command(op, src=source, dst=target, flags=1, **fields)
    return Program.open(build.program(SHAPE, [("y", 128, SHAPE)], 256))


@pytest.mark.parametrize(
    ("op", "fields", "needed"),
    [
        (Op.SHUFFLE, {}, "1.0.0"),
        (Op.ADD, {"residual": region(Space.DDR, 0, SHAPE), **ADD}, "1.0.0"),
        (Op.ADD, {"residual": region(Space.DDR, 0, SHAPE), **ADD, "b_scale": -0.1}, "1.1.0"),
        (Op.TABLE, {}, "1.1.0"),
        (Op.POOL, {}, "1.1.0"),
        (Op.MUL, {"residual": region(Space.DDR, 0, SHAPE), **ADD}, "1.1.0"),
        (Op.RESIZE, {}, "1.1.0"),
        (Op.HOST, {}, "1.2.0"),
    ],
)
def test_an_operation_needs_its_driver(op: Op, fields: dict[str, Any], needed: str) -> None:
    made = program(op, **fields)
    for driver in ("1.0.0", "1.1.0", "1.2.0"):
        device = NpuDevice("npu-4t", faults=Faults(driver=driver))
        if driver >= needed:
            device.load(made)
            continue
        with pytest.raises(DriverTooOld, match=f"needs driver {needed}; this is {driver}"):
            device.load(made)


def test_a_fused_subtraction_needs_the_second_driver() -> None:
    stream = Program.open(residual_net().program).commands(0).copy()
    assert lacking(stream, "1.0.0") == []
    stream["b_scale"] = -abs(stream["b_scale"])
    assert lacking(stream, "1.0.0") == ["a subtraction needs driver 1.1.0"]


def test_a_residual_that_comes_first_needs_the_fourth_driver() -> None:
    stream = Program.open(residual_net().program).commands(0).copy()
    stream["flags"][stream["op"] == Op.CONV] |= FLAG_RESIDUAL_FIRST
    assert lacking(stream, "1.2.9") == [f"a residual that comes first needs driver {RESIDUAL_FIRST_DRIVER}"]
    assert lacking(stream, RESIDUAL_FIRST_DRIVER) == []
    stream["a_scale"] = -abs(stream["a_scale"])
    assert "a subtraction needs driver 1.1.0" in lacking(stream, "1.0.0")


def test_device_and_compiler_name_the_same_drivers() -> None:
    names = {"Table": Op.TABLE, "Pool": Op.POOL, "Mul": Op.MUL, "Resize": Op.RESIZE, "Host": Op.HOST}
    matrix = {kind.__name__: version for kind, version in MINIMUM_DRIVER.items()}
    for name, op in names.items():
        stream = program(op).commands(0)
        assert lacking(stream, "1.0.0") == [f"{op.name} needs driver {matrix[name]}"]
