"""One case of a grid: a model and a size; golden, compiled program on the device and ONNX Runtime have to agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.gridding.runtime import runtime_outputs
from compiler import golden
from compiler.driver import read_model
from compiler.ir import Graph
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice

SPEC = load_spec("npu-4t")
Image = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Case:
    """A model, its input size, and how far a byte may lie from ONNX Runtime's."""

    name: str
    model: bytes
    size: tuple[int, int]
    allowed: int = 0


@dataclass(frozen=True)
class Count:
    """Cases, bytes compared, wrong against ONNX Runtime, wrong on the device, and within what is allowed."""

    cases: int = 0
    compared: int = 0
    golden_wrong: int = 0
    device_wrong: int = 0
    allowed: int = 0
    wrong_cases: tuple[str, ...] = ()

    def __add__(self, other: Count) -> Count:
        return Count(
            self.cases + other.cases,
            self.compared + other.compared,
            self.golden_wrong + other.golden_wrong,
            self.device_wrong + other.device_wrong,
            self.allowed + other.allowed,
            (*self.wrong_cases, *other.wrong_cases),
        )

    @property
    def wrong(self) -> int:
        """All mismatches."""
        return self.golden_wrong + self.device_wrong


def total(cases: Iterable[Case]) -> Count:
    """Judge all cases."""
    count = Count()
    for case in cases:
        count += judge(case)
    return count


def judge(case: Case, seed: int = 3) -> Count:
    """Golden against ONNX Runtime, device against golden."""
    profile = read_model("model", case.model, [case.size]).profiles[0]
    graph = profile.imported
    shape = graph.values[graph.input].shape
    frame = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return compare(case, graph, frame, runtime_outputs(case.model, graph, frame))


def compare(case: Case, graph: Graph, frame: Image, expected: dict[str, Image]) -> Count:
    """The counts of one case against expected outputs."""
    made = golden.run(graph, frame)
    device = on_device(case, frame)
    steps = np.concatenate(
        [np.abs(made[n].astype(int) - image.astype(int)).reshape(-1) for n, image in expected.items()]
    )
    wrong = int((steps > case.allowed).sum())
    strange = sum(int((device[name] != image).sum()) for name, image in made.items())
    names = (case.name,) if wrong or strange else ()
    return Count(1, steps.size, wrong, strange, int(((steps > 0) & (steps <= case.allowed)).sum()), names)


def on_device(case: Case, frame: Image) -> dict[str, Image]:
    """Compile, verify, run on the emulated device."""
    profiles = read_model("model", case.model, [case.size]).profiles
    device = NpuDevice(SPEC, jitter=0.0)
    loaded = device.load(Program.open(build_program(profiles, SPEC, bytes(16)).data), bind_all=True)
    outputs = device.infer(loaded, frame, profiles[0].name).outputs
    return {name: np.asarray(image).copy() for name, image in outputs.items()}
