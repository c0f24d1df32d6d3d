"""Operator table: what each building block costs on each device class, measured on the emulated device.

For every (trunk, mid, kernel) a micro-network with one residual block is exported with random weights, compiled and
run through the lab; the kernels' nominal times are read off. A network's latency is then head + blocks + tail. The
table holds plain numbers and names the compiler's and the device's facts that it was measured with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from compiler.driver import compile_program
from contracts.lab import LabClient
from flows.errors import FlowError
from flows.quant.calibrate import calibrate
from flows.tasks.task import Task
from flows.tasks.vsr.architecture import Architecture, Space, Stage
from flows.tasks.vsr.history import FRAMES, clips_of
from flows.tasks.vsr.task import VSR

Profiles = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class BlockCost:
    """Microseconds of one residual block, and of head and tail around it, for one target and profile.

    A row with kernel 0 is what `mid` channels of history cost: reading, joining, keeping.
    """

    target: str
    profile: str
    trunk: int
    mid: int
    kernel: int
    block_us: float
    ends_us: float
    ddr_bytes: int


@dataclass(frozen=True)
class OperatorTable:
    """All measured costs."""

    rows: tuple[BlockCost, ...]
    facts: dict[str, str]

    def latency_us(self, architecture: Architecture, target: str, profile: str) -> float:
        """Predicted microseconds of one frame. Raises FlowError when a block was not measured."""
        total = 0.0
        ends = [r.ends_us for r in self.rows if (r.target, r.profile, r.trunk) == (target, profile, architecture.trunk)]
        if not ends:
            raise FlowError(
                f"operator table has no row for trunk {architecture.trunk} on {target} at {profile}; measure it"
            )
        total += float(np.median(ends))
        for block in _parts(architecture):
            total += self._row(target, profile, architecture.trunk, block).block_us
        return total

    def worst_ratio(self, architecture: Architecture, reference: Architecture) -> float:
        """Largest predicted latency ratio to `reference` over all targets and profiles."""
        pairs = sorted({(row.target, row.profile) for row in self.rows})
        return max(self.latency_us(architecture, *pair) / self.latency_us(reference, *pair) for pair in pairs)

    def ddr_bytes(self, architecture: Architecture, target: str, profile: str) -> int:
        """Predicted DDR bytes of one frame: frames and weights, plus what each block spills."""
        least = min(row.ddr_bytes for row in self.rows if (row.target, row.profile) == (target, profile))
        blocks = [self._row(target, profile, architecture.trunk, block) for block in _parts(architecture)]
        return least + sum(row.ddr_bytes - least for row in blocks)

    def worst_ddr_ratio(self, architecture: Architecture, reference: Architecture) -> float:
        """Largest predicted ratio of DDR traffic to `reference` over all targets and profiles."""
        pairs = sorted({(row.target, row.profile) for row in self.rows})
        return max(self.ddr_bytes(architecture, *pair) / self.ddr_bytes(reference, *pair) for pair in pairs)

    def to_json(self) -> str:
        """Plain arrays as text."""
        return json.dumps({"facts": self.facts, "rows": [asdict(row) for row in self.rows]}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> OperatorTable:
        """Inverse of `to_json`."""
        raw = json.loads(text)
        return OperatorTable(tuple(BlockCost(**row) for row in raw["rows"]), dict(raw["facts"]))

    def _row(self, target: str, profile: str, trunk: int, block: Stage) -> BlockCost:
        for row in self.rows:
            if (row.target, row.profile, row.trunk) == (target, profile, trunk) and (row.mid, row.kernel) == (
                block.mid,
                block.kernel,
            ):
                return row
        raise FlowError(f"operator table lacks a {block.mid}-wide k{block.kernel} block on {target} at {profile}")


def measure_table(
    space: Space,
    trunks: Sequence[int],
    targets: Sequence[str],
    profiles: Profiles,
    lab_command: Sequence[str],
    progress: Callable[[float], None] | None = None,
    task: Task = VSR,
) -> OperatorTable:
    """Compile and run every block of a space at each trunk on every target. One lab process per target."""
    rows: list[BlockCost] = []
    facts: dict[str, str] = {}
    blocks = [(trunk, mid, kernel) for trunk in trunks for mid in space.mids for kernel in space.kernels]
    models = {block: micro_network(*block, task=task, fine=space.fine) for block in blocks}
    recurrent = [(trunk, kept) for trunk in trunks for kept in space.histories if kept]
    done, total = 0, len(targets) * (len(models) + len(recurrent))
    for target in targets:
        with LabClient([*lab_command, "--device-class", target]) as lab:
            facts[target] = f"driver {lab.info.driver}, {lab.info.array_model} array"
            for (trunk, mid, kernel), model in models.items():
                program, _ = compile_program(model, target, profiles)
                lab.load_program(program, "micro")
                rows += [_measure(lab, target, trunk, mid, kernel, size) for size in profiles]
                done += 1
                if progress is not None:
                    progress(done / total)
            for trunk, kept in recurrent:
                model = micro_network(trunk, min(space.mids), min(space.kernels), kept, task, fine=space.fine)
                lab.load_program(compile_program(model, target, profiles)[0], "micro")
                rows += [_history(lab, rows, (target, trunk, kept), size, space) for size in profiles]
                done += 1
                if progress is not None:
                    progress(done / total)
    return OperatorTable(tuple(rows), facts)


def micro_network(
    trunk: int, mid: int, kernel: int, history: int = 0, task: Task = VSR, *, fine: bool = False
) -> bytes:
    """QDQ ONNX of head, one block and tail with random weights; with history where it is not 0."""
    frames = FRAMES if history else 1
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = task.build(Architecture(trunk, (Stage(1, mid, kernel),), history, fine))
        network = task.quantised(net, equalise=False)
        with clips_of(network, frames):
            calibrate(network, [torch.rand(frames, 3, 32, 32)])
    return task.export(network)


def _measure(lab: LabClient, target: str, trunk: int, mid: int, kernel: int, size: tuple[int, int]) -> BlockCost:
    frame = np.zeros((1, *size, 3), dtype=np.uint8)
    result = lab.run("micro", frame)
    if len(result.kernels) < 3:
        raise FlowError(f"micro-network compiled to {len(result.kernels)} kernels, expected head, block and tail")
    ordered: list[Any] = list(result.kernels)
    blocks = [row for row in ordered if "block" in row.name] or ordered[1:-1]
    inside = sum(row.microseconds for row in blocks)
    whole = sum(row.microseconds for row in ordered)
    return BlockCost(target, f"{size[0]}x{size[1]}", trunk, mid, kernel, inside, whole - inside, result.ddr_bytes)


def _history(
    lab: LabClient, rows: Sequence[BlockCost], wanted: tuple[str, int, int], size: tuple[int, int], space: Space
) -> BlockCost:
    """What history adds to the micro-network with the smallest block, which was measured before."""
    target, trunk, kept = wanted
    profile = f"{size[0]}x{size[1]}"
    key = (target, profile, trunk, min(space.mids), min(space.kernels))
    plain = next(row for row in rows if (row.target, row.profile, row.trunk, row.mid, row.kernel) == key)
    result = lab.run("micro", np.zeros((1, *size, 3), dtype=np.uint8))
    whole = sum(row.microseconds for row in result.kernels)
    added = whole - plain.block_us - plain.ends_us
    return BlockCost(target, profile, trunk, kept, 0, added, plain.ends_us, result.ddr_bytes)


def _parts(architecture: Architecture) -> tuple[Stage, ...]:
    """Blocks, and the history as the block of kernel 0 that the table holds it as."""
    kept = (Stage(1, architecture.history, 0),) if architecture.history else ()
    return (*architecture.blocks, *kept)
