"""The device with its driver: loads programs, runs frames, and tells how long the target would have taken.

Time is simulated: the stream's own time, stretched by the device's clock, with a little seeded jitter so that
no two devices agree exactly. Invariants: a refused program or frame changes nothing; a failed run leaves the
device usable; outputs are copies that the caller owns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Program
from contracts.npu.spec import NpuSpec, load_spec
from edge_agent.runtime.npu.bound import BoundProfile, bound_profile, content_digest
from edge_agent.runtime.npu.engines.base import Bytes, Engine
from edge_agent.runtime.npu.engines.select import best_engine
from edge_agent.runtime.npu.errors import (
    DeviceHang,
    DriverError,
    DriverTooOld,
    FrameRefused,
    ProgramRefused,
)
from edge_agent.runtime.npu.faults import Faults, FaultSource, RunFaults
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.memory import Memory, shared_memory
from edge_agent.runtime.npu.timing import FrameTime

DEFAULT_ARRAY_MODEL = "u85-like"


@dataclass(frozen=True)
class RunResult:
    """One frame: outputs by name (uint8 [h, w, c], owned by the caller), and the simulated time."""

    outputs: dict[str, NDArray[np.uint8]]
    simulated_ms: float
    stretch: float
    """What the nominal time of the frame, and of each kernel, was multiplied by."""

    time: FrameTime


@dataclass(frozen=True)
class LoadedProgram:
    """A program on a device; its profiles are bound when they first run."""

    program: Program
    digests: tuple[bytes, ...]
    """What tells the content of each profile apart."""

    faulty: bool

    @property
    def build_id(self) -> str:
        """Hexadecimal build id."""
        return self.program.build_id.hex()


class NpuDevice:
    """One emulated device of the target `target`.

    `shared` devices take turns in one memory of the process, which is what lets hundreds run in one process;
    they compute and time exactly as the others. `jitter` is the relative spread of the simulated time.
    """

    def __init__(
        self,
        target: str | NpuSpec,
        *,
        faults: Faults | None = None,
        seed: int = 0,
        engine: Engine | None = None,
        shared: bool = False,
        array_model: str = DEFAULT_ARRAY_MODEL,
        jitter: float = 0.01,
    ) -> None:
        self.spec = load_spec(target) if isinstance(target, str) else target
        self.engine = engine or best_engine()
        self.array_model = self.spec.array_model(array_model)
        self._memory = shared_memory(self.spec) if shared else Memory(self.spec)
        self._jitter = jitter
        self._random = np.random.default_rng([seed, 0x71])
        self._own_speed = 1.0 + jitter * float(self._random.standard_normal())
        self._seed = seed
        self._faults = FaultSource(faults or Faults(), seed)
        self._resident: object = None

    @property
    def faults(self) -> Faults:
        """The faults in force."""
        return self._faults.faults

    def set_faults(self, faults: Faults) -> None:
        """Change the faults; for programs that are loaded already, ask `rematch`."""
        self._faults = FaultSource(faults, self._seed)

    @property
    def driver(self) -> str:
        """Version of the device's driver."""
        return self.faults.driver or self.spec.driver_maximum

    @property
    def mhz(self) -> float:
        """Clock of the operating point in force: the fastest, unless the device is throttled."""
        points = self.spec.dvfs
        return float(points[min(self.faults.operating_point, len(points) - 1)].mhz)

    def load(self, program: Program, *, bind_all: bool = False) -> LoadedProgram:
        """Check that `program` may run here; with `bind_all` also that every profile's plan holds.

        Raises ProgramRefused, DriverTooOld, PlanViolation.
        """
        if program.target != self.spec.name:
            remedy = f"compile for {self.spec.name} or take the bundle's piece for it"
            raise ProgramRefused(f"a program for {program.target}", f"device {self.spec.name}", remedy)
        if not self.spec.supports_driver(self.driver):
            wanted = f"{self.spec.driver_minimum} to {self.spec.driver_maximum}"
            raise DriverTooOld(f"driver {self.driver}", f"device {self.spec.name}", f"install driver {wanted}")
        if not program.profiles:
            raise ProgramRefused("a program without profiles", "section PROFILES", "compile the model again")
        digests = tuple(content_digest(program, index) for index in range(len(program.profiles)))
        loaded = LoadedProgram(program, digests, self.faults.concerns(program.build_id.hex(), program.names))
        if bind_all:
            for index in range(len(program.profiles)):
                self._bound(loaded, index)
        return loaded

    def rematch(self, loaded: LoadedProgram) -> LoadedProgram:
        """Return `loaded` with the question of whether the present faults concern it answered anew."""
        concerned = self.faults.concerns(loaded.build_id, loaded.program.names)
        return replace(loaded, faulty=concerned)

    def nominal_time(self, loaded: LoadedProgram, profile: str | int, array_model: str) -> FrameTime:
        """Return the time of a frame without jitter and faults, at the nominal clock."""
        index = loaded.program.profile_index(profile)
        with self._memory.lock:
            bound = self._bound(loaded, index)
        return bound.time(self.spec.array_model(array_model), float(self.spec.nominal_mhz))

    def infer(self, loaded: LoadedProgram, frame: Bytes, profile: str | int | None = None) -> RunResult:
        """Run one frame (uint8 [h, w, c] of a profile's size).

        Raises FrameRefused, PlanViolation, DriverError, DeviceHang.
        """
        index = find_profile(loaded.program, frame, profile)
        memory = self._memory
        with memory.lock:
            bound = self._bound(loaded, index)
            faults = self._faults.draw() if loaded.faulty else RunFaults()
            self._fail(faults, loaded)
            self._make_resident(bound)
            bound.input[...] = frame
            if faults.bit_flip:
                bound.run_with_flip(self._faults, self.faults.match)
            else:
                bound.run()
            outputs = {name: place.copy() for name, place in bound.outputs.items()}
        return self._timed(bound, outputs, loaded.faulty)

    def _make_resident(self, bound: BoundProfile) -> None:
        if self._memory.resident != bound.residency:
            self._memory.resident = None  # until all of them are there
            bound.load_constants()
            self._memory.resident = bound.residency

    def _bound(self, loaded: LoadedProgram, index: int) -> BoundProfile:
        return bound_profile(self._memory, loaded.program, index, self.engine, loaded.digests[index])

    def _fail(self, faults: RunFaults, loaded: LoadedProgram) -> None:
        where = f"device {self.spec.name}, build {loaded.build_id[:8]}"
        if faults.hang:
            raise DeviceHang(f"no answer within {LIMITS.hang_ms:g} ms", where, "the driver was reset; run again")
        if faults.driver_error:
            raise DriverError("the driver answered with an error", where, "run again or use another backend")

    def _timed(self, bound: BoundProfile, outputs: dict[str, NDArray[np.uint8]], faulty: bool) -> RunResult:
        time = bound.time(self.array_model, self.mhz)
        switched = 0.0
        if self._resident != bound.residency:
            switched = bound.prologue_time(self.array_model, self.mhz).total_ns
        self._resident = bound.residency
        stretch = self._own_speed * (1.0 + self._jitter * abs(float(self._random.standard_normal())))
        stretch *= self.faults.slow_factor if faulty else 1.0
        return RunResult(outputs, (time.total_ns + switched) * stretch / 1e6, stretch, time)


def find_profile(program: Program, frame: Bytes, profile: str | int | None) -> int:
    """Return the index of the profile that takes `frame`; raises FrameRefused."""
    shapes = {entry.name: entry.input for entry in program.profiles}
    fits = f"give uint8 of one of {shapes}"
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3:
        kind = f"{getattr(frame, 'dtype', type(frame).__name__)} {getattr(frame, 'shape', '')}"
        raise FrameRefused(f"a frame of {kind}", "infer", fits)
    for index, entry in enumerate(program.profiles):
        if profile in (None, index, entry.name) and entry.input == frame.shape:
            return index
    wanted = "" if profile is None else f" for profile {profile}"
    raise FrameRefused(f"a frame of {frame.shape}{wanted}", "infer", fits)
