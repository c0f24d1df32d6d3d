"""The device with its driver: loads programs, runs frames, and tells how long the target would have taken.

Time is simulated: the stream's own time, stretched by the device's clock, with a little seeded jitter so that
no two devices agree exactly. Invariants: a refused program or frame changes nothing; a failed run leaves the
device usable; outputs are copies that the caller owns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from contracts.npu.program import Program
from contracts.npu.spec import NpuSpec, load_spec
from edge_agent.runtime.npu.bound import BoundProfile, bound_profile, content_digest, core_of
from edge_agent.runtime.npu.climate import ClimateModel, Conditions, DeviceClimate
from edge_agent.runtime.npu.coded import decoded
from edge_agent.runtime.npu.drivers import lacking
from edge_agent.runtime.npu.engines.base import Bytes, Engine
from edge_agent.runtime.npu.engines.select import best_engine
from edge_agent.runtime.npu.errors import (
    DeviceHang,
    DriverError,
    DriverTooOld,
    ProgramRefused,
)
from edge_agent.runtime.npu.faults import Faults, FaultSource, RunFaults
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.loaded import LoadedProgram, RunResult, find_profile
from edge_agent.runtime.npu.memory import Memory, shared_memory
from edge_agent.runtime.npu.states import States, kept
from edge_agent.runtime.npu.timing import CommandTime, FrameTime

__all__ = ["DEFAULT_ARRAY_MODEL", "LoadedProgram", "NpuDevice", "RunResult", "find_profile"]

DEFAULT_ARRAY_MODEL = "u85-like"


class NpuDevice:
    """One emulated device of the target `target`.

    `shared` devices take turns in one memory of the process, which is what lets hundreds run in one process;
    they compute and time exactly as the others. `jitter` is the relative spread of the simulated time. With a
    `climate` the device heats up, slows down and empties its battery as it works.
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
        climate: ClimateModel | None = None,
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
        self._clock_s = 0.0
        self._states = States()
        self._climate = DeviceClimate(self.spec, climate) if climate else None
        self._core = self.spec

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
        """Clock of the operating point in force: the fastest, unless faults or heat throttle the device."""
        points = self.spec.dvfs
        heat = self._climate.now.point if self._climate else 0
        return float(points[min(max(self.faults.operating_point, heat), len(points) - 1)].mhz)

    @property
    def conditions(self) -> Conditions | None:
        """Heat and charge now; None when the device has no climate."""
        return self._climate.now if self._climate else None

    def reset(self) -> None:
        """Begin a new stream: what nets keep from frame to frame is forgotten."""
        self._states.reset()

    def idle(self, seconds: float) -> None:
        """Let simulated time go by without work, as between two frames."""
        if self._climate:
            self._climate.pass_time(seconds, core=self._core.thermal)
        self._clock_s += seconds

    def load(self, program: Program, *, bind_all: bool = False) -> LoadedProgram:
        """Check that `program` may run here; with `bind_all` also that every profile's plan holds.

        Coded constants are decoded once, here, and the simulated clock moves on by what that takes.

        Raises ProgramRefused, DriverTooOld, PlanViolation.
        """
        program = decoded(program)
        if program.target not in (self.spec.name, self.spec.little):
            remedy = f"compile for {self.spec.name} or take the bundle's piece for it"
            raise ProgramRefused(f"a program for {program.target}", f"device {self.spec.name}", remedy)
        if not self.spec.supports_driver(self.driver):
            wanted = f"{self.spec.driver_minimum} to {self.spec.driver_maximum}"
            raise DriverTooOld(f"driver {self.driver}", f"device {self.spec.name}", f"install driver {wanted}")
        missing = {text: None for index in range(len(program.profiles)) for text in self._lacking(program, index)}
        if missing:
            remedy = f"install it, or compile for driver {self.driver}"
            raise DriverTooOld(f"{', '.join(missing)}; this is {self.driver}", f"device {self.spec.name}", remedy)
        if not program.profiles:
            raise ProgramRefused("a program without profiles", "section PROFILES", "compile the model again")
        digests = tuple(content_digest(program, index) for index in range(len(program.profiles)))
        loaded = LoadedProgram(program, digests, self.faults.concerns(program.build_id.hex(), program.names))
        self._clock_s += loaded.decode_ns(self.spec) / 1e9
        if bind_all:
            for index in range(len(program.profiles)):
                self._bound(loaded, index)
        return loaded

    def _lacking(self, program: Program, index: int) -> list[str]:
        return lacking(program.commands(index), self.driver)

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

    def timeline(self, loaded: LoadedProgram, profile: str | int) -> list[CommandTime]:
        """Return when each command of a frame runs now, without jitter, in nanoseconds from its start."""
        index = loaded.program.profile_index(profile)
        with self._memory.lock:
            bound = self._bound(loaded, index)
        return bound.timeline(self.array_model, self.mhz)

    def occupancy(self, loaded: LoadedProgram, profile: str | int) -> list[int]:
        """Return the bytes of SRAM held while each command of a frame runs."""
        index = loaded.program.profile_index(profile)
        with self._memory.lock:
            return self._bound(loaded, index).occupancy()

    def make_ready(self, loaded: LoadedProgram, profile: str | int) -> float:
        """Bring the constants of a profile into the SRAM unless they are there; returns simulated milliseconds."""
        index = loaded.program.profile_index(profile)
        with self._memory.lock:
            bound = self._bound(loaded, index)
            self._make_resident(bound)
        return self._switch_ns(bound) / 1e6

    def rehearse(self, loaded: LoadedProgram, profile: str | int) -> None:
        """Make a profile ready and run it once on a black frame, so that its first real frame finds plan, memory and
        timing at hand. It takes no simulated time, meets no faults, and leaves no states.
        """
        index = loaded.program.profile_index(profile)
        self.make_ready(loaded, index)
        with self._memory.lock:
            bound = self._bound(loaded, index)
            bound.input[...] = 0
            bound.run()
        bound.time(self.array_model, self.mhz)

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
            key = loaded.digests[index], index
            self._states.put(key, bound)
            if faults.bit_flip:
                bound.run_with_flip(self._faults, self.faults.match)
            else:
                bound.run()
            self._states.take(key, bound)
            outputs = {name: place.copy() for name, place in bound.outputs.items()}
        self._core = core_of(self.spec, loaded.program.target)
        return self._timed(bound, outputs, loaded.faulty)

    def carry_states(self, before: LoadedProgram, after: LoadedProgram) -> None:
        """Go on with `after` where `before` stopped: what a net keeps is handed over where both keep the same, and
        forgotten where they do not.
        """
        sources = {profile.input: index for index, profile in enumerate(before.program.profiles)}
        for index, profile in enumerate(after.program.profiles):
            source = sources.get(profile.input)
            if source is None:
                continue
            keys = (before.digests[source], source), (after.digests[index], index)
            self._states.carry(*keys, same=kept(before.program.profiles[source]) == kept(profile))

    def carry_profile(self, loaded: LoadedProgram, before: int, after: int) -> None:
        """Go on with another profile of the same program, as `carry_states` does with another program."""
        profiles = loaded.program.profiles
        keys = (loaded.digests[before], before), (loaded.digests[after], after)
        self._states.carry(*keys, same=kept(profiles[before]) == kept(profiles[after]))

    def nominal_ns(self, loaded: LoadedProgram, profile: str | int) -> float:
        """Return the nominal time of a frame of a profile, without heat, faults and spread."""
        with self._memory.lock:
            bound = self._bound(loaded, loaded.program.profile_index(profile))
        return bound.time(self.array_model, float(self.spec.dvfs[0].mhz)).total_ns

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

    def _switch_ns(self, bound: BoundProfile) -> float:
        """Return the simulated time of loading what `bound` needs and the device did not have."""
        if self._resident == bound.residency:
            return 0.0
        self._resident = bound.residency
        return bound.prologue_time(self.array_model, self.mhz).total_ns

    def _timed(self, bound: BoundProfile, outputs: dict[str, Bytes], faulty: bool) -> RunResult:
        time = bound.time(self.array_model, self.mhz)
        switched = self._switch_ns(bound)
        stretch = self._own_speed * (1.0 + self._jitter * abs(float(self._random.standard_normal())))
        stretch *= self.faults.slow_factor if faulty else 1.0
        seconds = (time.total_ns + switched) * stretch / 1e9
        began, busy = self._clock_s, time.compute_ns / time.total_ns if time.total_ns else 0.0
        self._clock_s += seconds
        after = self._climate.pass_time(seconds, busy, self._core.thermal) if self._climate else None
        return RunResult(outputs, seconds * 1e3, stretch, time, began, after)
