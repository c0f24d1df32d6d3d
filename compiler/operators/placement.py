"""Where each operator runs, why, and which driver it needs.

The matrix of driver versions is ``MINIMUM_DRIVER``. What an older driver lacks, ``passes.old_driver`` makes of what it
has or gives to the host processor, with a line in the report; what is left then ``unsupported`` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from compiler.ir import Add, Clip, Conv, Graph, Host, HostFunction, Join, Move, Mul, Part, Pool, Resize, Simple, Table
from compiler.ir import flat as opened


class Placement(Enum):
    """Which processor."""

    NPU = "NPU"
    HOST = "CPU"
    NOTHING = "no command"


@dataclass(frozen=True)
class Placed:
    """One operator of the graph and where it runs. ``str`` is the line of the report."""

    operator: str
    origin: tuple[str, ...]
    placement: Placement
    reason: str

    def __str__(self) -> str:
        return f"{', '.join(self.origin) or self.operator} -> {self.placement.value}: {self.reason}"


HOST_REASONS: Mapping[HostFunction, str] = {
    HostFunction.SOFTMAX: "exponentials and a division by a sum have no NPU command",
    HostFunction.MATRIX_PRODUCT: "the array takes constant weights only, here both operands are activations",
    HostFunction.DEFORMABLE_ALIGNMENT: "addresses that depend on data have no NPU command",
    HostFunction.DYNAMIC_UPSAMPLING: "filters that differ by pixel have no NPU command",
    HostFunction.LINEAR_TEMPORAL_ATTENTION: "a division of two activations has no NPU command",
    HostFunction.GLOBAL_MOTION_WARP: "addresses that depend on data have no NPU command",
}

RESIDUAL_FIRST_DRIVER = "1.3.0"
"""The oldest driver that adds a convolution's result as the second operand."""

FIRST_DRIVER, WINDOWS = "1.0.0", "1.1.0"
MINIMUM_DRIVER: Mapping[type, str] = {
    Conv: "1.0.0",
    Add: "1.0.0",
    Move: "1.0.0",
    Clip: "1.1.0",
    Table: "1.1.0",
    Mul: "1.1.0",
    Pool: "1.1.0",
    Resize: "1.1.0",
    Join: "1.1.0",
    Part: "1.1.0",
    Host: "1.2.0",
}

FALLBACKS: Mapping[type, str] = {
    Add: "a sum that it cannot fuse: two kernels; a subtraction: negation by convolution and addition where all 65,536 "
    "pairs agree, else the CPU",
    Table: "a depthwise convolution where all 256 answers agree (changes of scale, sums and products with constants, "
    "Relu, Clip), else the CPU",
    Mul: "the CPU",
    Pool: "the CPU",
    Resize: "the CPU",
    Join: "copies by the CPU between the windows and maps of their own",
    Host: "an error: nothing else can run it",
}
"""What stands for an operator that a driver lacks (``passes.old_driver``)."""


def place_operators(graph: Graph) -> tuple[Placed, ...]:
    """Every operator in order; blocks opened."""
    return tuple(_placed(step) for step in opened(graph.operators))


def _placed(step: Simple) -> Placed:
    if reason := host_reason(step):
        return Placed(step.name, step.origin, Placement.HOST, reason)
    if isinstance(step, Join | Part):
        return Placed(step.name, step.origin, Placement.NOTHING, "a window of another map, nothing is moved")
    return Placed(step.name, step.origin, Placement.NPU, f"{type(step).__name__.upper()} command")


def host_reason(step: Simple) -> str:
    """Why an operator runs on the host processor; empty where the NPU runs it."""
    if isinstance(step, Host):
        return HOST_REASONS[step.function]
    return step.host if isinstance(step, Add | Move | Table | Mul | Pool | Resize) else ""


def minimum_driver(step: Simple) -> str:
    """The oldest driver that runs an operator. A subtraction needs the second driver, an addition the first, and one
    that is fused behind its second operand the fourth; every driver hands over to the host processor, but the functions
    of HOST are newer.
    """
    if isinstance(step, Add | Move | Table | Mul | Pool | Resize) and step.host:
        return FIRST_DRIVER
    if isinstance(step, Add) and step.subtract:
        return "1.1.0"
    if isinstance(step, Conv) and step.residual is not None:
        subtraction = "1.1.0" if step.residual.subtract else MINIMUM_DRIVER[Conv]
        return RESIDUAL_FIRST_DRIVER if step.residual.first else subtraction
    return MINIMUM_DRIVER.get(type(step), "1.1.0")


def unsupported(graph: Graph, driver: str) -> tuple[str, ...]:
    """One sentence for each operator that a driver of this version lacks; empty when it runs the graph."""
    return tuple(_lacks(graph, driver))


def _lacks(graph: Graph, driver: str) -> Iterator[str]:
    for step in opened(graph.operators):
        node = ", ".join(step.origin) or step.name
        if needed := lacked(step, driver):
            yield f"{node}: {type(step).__name__} needs driver {needed}, {driver} lacks it"
        elif touches_window(graph, step) and version(driver) < version(WINDOWS):
            yield f"{node}: windows of a map need driver {WINDOWS}, {driver} lacks them"


def older(driver: str, needed: str) -> bool:
    """Whether a driver version is below another; raises ValueError when one is none."""
    return version(driver) < version(needed)


def lacked(step: Simple, driver: str) -> str:
    """The driver that an operator needs when this one lacks it; empty when it has it. Windows are no operators."""
    needed = minimum_driver(step)
    return needed if not isinstance(step, Join | Part) and version(driver) < version(needed) else ""


def touches_window(graph: Graph, step: Simple) -> bool:
    """Whether the NPU reads or writes a part of a map for this operator."""
    if isinstance(step, Join | Part) or host_reason(step):
        return False
    return any(graph.values[name].window is not None for name in (*step.reads, step.result))


def version(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split("."))
    except ValueError as error:
        raise ValueError(f"driver version {text!r} is not of the form 1.2.3") from error
