"""Verified bundles on the runtime's backends: what `Bundles` loads and the frame loop plays.

A memo may stand before the runtime when many healthy devices of a process look at the same pictures: the
programs are deterministic, so a result computed for one device is the result for all of its class. Devices
whose faults are random never use it.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from contracts.bundle import Bundle
from contracts.clock import Clock
from contracts.statistics import ObserverParameters
from edge_agent.observers.health import fidelity
from edge_agent.picture import Pixels, fit
from edge_agent.playback import Enhanced, Seen
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.healing import Choice
from edge_agent.runtime.registry import backend
from edge_agent.runtime.runner import Runner
from edge_agent.runtime.trace import TraceLimits, TraceRing
from edge_agent.sources import SourceFrame

if TYPE_CHECKING:
    from typing_extensions import Buffer

Result = Seen | Enhanced
ENTRY_BYTES = 400
SMALL_TRACE = TraceLimits(ring=4, kept=4)


class ObservationFailed(Exception):
    """No backend could run the quality net on this frame."""


class Memo:
    """Results by program, class and picture; the one used longest ago goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[tuple[str, str], tuple[Result, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0
        self.hits = 0

    def get(self, key: tuple[str, str]) -> Result | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            self.hits += 1
            return found[0]

    def put(self, key: tuple[str, str], result: Result) -> None:
        size = ENTRY_BYTES
        if isinstance(result, Seen):
            size += result.features.nbytes + result.embedding.nbytes
        with self._lock:
            if key in self._kept or size > self._most:
                return
            self._kept[key] = (result, size)
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed


class RunnerPlayback:
    """A bundle on a runner."""

    def __init__(self, bundle: Bundle, runner: Runner, memo: Memo | None = None, memo_key: str = "") -> None:
        self._bundle, self._runner = bundle, runner
        self._sizes = tuple(runner.sizes)
        self._memo, self._memo_key = memo, memo_key
        self._lite = ""
        self.digest, self.version = bundle.digest, bundle.manifest.release_version
        self.observer = ObserverParameters.from_bytes(bundle.piece("observer.npz"))

    @property
    def state(self) -> str:
        """normal, degraded or disabled."""
        return self._runner.state.value

    @property
    def runner(self) -> Runner:
        """The runner, for traces."""
        return self._runner

    def lighten(self, reason: str) -> None:
        """Take the smaller engine of the bundle from the next frame on, or the full one when `reason` is empty."""
        self._lite = "/lite" if reason else ""
        self._runner.lighten(reason)

    def begin(self) -> None:
        """Begin a new stream."""
        self._runner.begin()

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """Heights and widths that frames are fitted to."""
        return self._sizes

    @property
    def weights(self) -> Sequence[Buffer]:
        """Constants in use; they differ from the file's where a device marks them."""
        return self._runner.weights

    def upscale(self, frame: SourceFrame) -> Enhanced:
        """Compose one frame; with a memo the image is left out, because nobody looks at it."""
        key = (f"{self._memo_key}/upscale{self._lite}", frame.key)
        known = self._memo.get(key) if self._memo else None
        if isinstance(known, Enhanced):
            return known
        pixels = self._fitted(frame)
        served = self._runner.upscale(pixels, frame.trace)
        assert served.result is not None
        image, later = served.result.image, frame.later is not None and self._memo is None
        enhanced = Enhanced(
            image=None if self._memo else image,
            latency_ms=served.result.simulated_ms,
            fidelity_lsb=None if later else fidelity(pixels, image),
            errors=served.errors,
            on_cpu=served.choice is Choice.FALLBACK,
            lite=served.result.lite,
            measure=partial(fidelity, pixels, image) if later else None,
        )
        self._remember(key, enhanced, served.choice, served.errors)
        return enhanced

    def observe(self, frame: SourceFrame) -> Seen:
        """Score one frame. Raises ObservationFailed when no backend could."""
        key = (f"{self._memo_key}/observe", frame.key)
        known = self._memo.get(key) if self._memo else None
        if isinstance(known, Seen):
            return known
        served = self._runner.observe(self._fitted(frame), frame.trace)
        if served.result is None:
            raise ObservationFailed(f"no backend could observe a frame of bundle {self.digest[:12]}")
        features, embedding = served.result.features, served.result.embedding
        seen = Seen(features, embedding, served.errors, served.choice is Choice.FALLBACK)
        self._remember(key, seen, served.choice, served.errors)
        return seen

    def _fitted(self, frame: SourceFrame) -> Pixels:
        if frame.fitted is not None and frame.fitted[0] == self._sizes:
            return frame.fitted[1]
        return fit(frame.pixels, self._sizes)

    def _remember(self, key: tuple[str, str], result: Result, choice: Choice, errors: int) -> None:
        if self._memo is not None and choice is Choice.PRIMARY and not errors:
            self._memo.put(key, result)


@dataclass(frozen=True)
class RunnerLoader:
    """Loads bundles for one device."""

    device_class: str
    clock: Clock
    backend: str = "npu"
    options: BackendOptions = field(default_factory=BackendOptions)
    budget_ms: float = 33.3
    memo: Memo | None = None

    def load(self, bundle: Bundle) -> RunnerPlayback:
        """Raises BundleError, NpuError, BackendError or ObserverError."""
        fallback = None if self.backend == "onnxruntime" else backend("onnxruntime", self.options)
        trace = TraceRing(SMALL_TRACE) if self.options.shared else TraceRing()
        runner = Runner(
            backend(self.backend, self.options), fallback, self.clock, budget_ms=self.budget_ms, trace=trace
        )
        runner.load(bundle, self.device_class)
        memo = None if self._random_faults(bundle) or self._keeps_states(bundle) else self.memo
        return RunnerPlayback(bundle, runner, memo, self._memo_key(bundle))

    def _keeps_states(self, bundle: Bundle) -> bool:
        """Whether a result depends on more than its frame, so that no memo may answer for it."""
        profiles = bundle.program(self.device_class, "model").profiles
        return any(profile.states for profile in profiles)

    def _memo_key(self, bundle: Bundle) -> str:
        faults = self.options.faults.to_mapping() if self._concerned(bundle) else {}
        return f"{bundle.digest}/{self.device_class}/{self.backend}/{json.dumps(faults, sort_keys=True)}"

    def _random_faults(self, bundle: Bundle) -> bool:
        faults = self.options.faults
        return self._concerned(bundle) and bool(faults.driver_error_rate or faults.hang_rate or faults.bit_flip_rate)

    def _concerned(self, bundle: Bundle) -> bool:
        programs = (bundle.program(self.device_class, name) for name in ("model", "quality"))
        return any(self.options.faults.concerns(p.build_id.hex(), tuple(p.names)) for p in programs)
