"""Runs a changed program on the emulated device, for the mutation test."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.verifier.mutations import Judgement
from contracts.npu import NpuSpec, Program
from edge_agent.runtime.npu import NpuDevice, NpuError
from edge_agent.runtime.npu.checking import check_profile


class Judge:
    """Compares the first profile's pixels of two frames with those of the original, and asks the checking mode."""

    def __init__(self, program: Program, spec: NpuSpec, seed: int = 7) -> None:
        self._spec = spec
        random = np.random.default_rng(seed)
        shape = program.profiles[0].input
        self._frames = [random.integers(0, 256, shape, dtype=np.uint8) for _ in range(2)]
        self._wanted = self._run(program)

    def __call__(self, program: Program) -> Judgement:
        """What running the program shows; a device that refuses it has found something."""
        try:
            found = self._run(program)
            same = all(np.array_equal(one, other) for one, other in zip(found, self._wanted, strict=True))
            return Judgement(same, bool(check_profile(program, 0, self._spec)))
        except NpuError:
            return Judgement(same=False, found=True)

    def _run(self, program: Program) -> list[npt.NDArray[np.uint8]]:
        device = NpuDevice(self._spec, jitter=0.0)
        loaded = device.load(program)
        return [image for frame in self._frames for image in device.infer(loaded, frame, 0).outputs.values()]
