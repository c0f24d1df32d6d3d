"""Speaks to a device lab: starts the process, loads bundles or programs, runs frames.

    with LabClient([sys.executable, "-m", "edge_agent.lab", "--device-class", "npu-4t"]) as lab:
        lab.load(path)
        result = lab.run("model", frames)

A real board stands in for the emulated device by another command. Not for several threads at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.lab.errors import LabError, LabProtocolError, LabRefused
from contracts.lab.limits import LIMITS
from contracts.lab.messages import PROTOCOL, Array, Message, decode, encode
from contracts.lab.pipe import Pipe
from contracts.lab.results import KernelRow, LabInfo, LabProfile, LabResult


class LabClient:
    """A lab process, from `with` to the end of its block. `timeout_s` bounds each answer."""

    def __init__(self, command: Sequence[str], *, timeout_s: float = LIMITS.answer_s) -> None:
        if not command:
            raise ValueError("the lab command is empty; give for example ['edgeloop', 'agent', 'lab']")
        self._command = list(command)
        self._timeout_s = timeout_s
        self._pipe: Pipe | None = None
        self.info: LabInfo

    def __enter__(self) -> LabClient:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process and greet it; raises LabUnavailable, LabDied, LabTimeout, LabProtocolError."""
        self._pipe = Pipe(self._command)
        try:
            header = self._ask({"op": "hello"}, timeout_s=max(self._timeout_s, LIMITS.start_s)).header
            self.info = LabInfo(**header["info"])
            if self.info.protocol != PROTOCOL:
                raise LabProtocolError(f"the lab speaks protocol {self.info.protocol}, this client {PROTOCOL}")
        except (KeyError, TypeError) as error:
            self.close()
            raise LabProtocolError(f"an answer to hello without the device's facts: {error}") from error
        except LabError:
            self.close()
            raise

    def close(self) -> None:
        """End the process; safe to call twice."""
        self._close(LIMITS.stop_s)

    def _close(self, patience_s: float) -> None:
        if self._pipe is not None:
            self._pipe.close(patience_s)
            self._pipe = None

    @property
    def pid(self) -> int | None:
        """Process id while the process runs."""
        return self._pipe.pid if self._pipe else None

    def load(self, path: Path | str) -> dict[str, Any]:  # Any: JSON values
        """Load a bundle and return its facts (build_id, release_version, programs, digest)."""
        return dict(self._ask({"op": "load", "path": str(Path(path).absolute())}).header["bundle"])

    def load_program(self, data: bytes, name: str = "micro") -> list[LabProfile]:
        """Load one program from its bytes under `name`, and return its profiles."""
        blob = np.frombuffer(data, np.uint8)
        header = self._ask({"op": "load_program", "name": name}, {"program": blob}).header
        return [LabProfile(**raw) for raw in header["profiles"]]

    def profiles(self, program: str = "model") -> list[LabProfile]:
        """Return the input sizes of a loaded program."""
        header = self._ask({"op": "profiles", "program": program}).header
        return [LabProfile(**raw) for raw in header["profiles"]]

    def run(self, program: str, frames: NDArray[np.uint8], profile: str | None = None) -> LabResult:
        """Run uint8 frames [n, h, w, c], n > 0; raises LabRefused when the device refuses or fails."""
        if frames.dtype != np.uint8 or frames.ndim != 4 or not frames.size:
            raise ValueError(f"frames must be uint8 [n, h, w, c] with n > 0, got {frames.dtype} {frames.shape}")
        batch = max(1, LIMITS.batch_bytes // max(1, frames[0].nbytes))
        request = {"op": "run", "program": program, "profile": profile}
        parts = [
            self._ask(request, {"frames": frames[start : start + batch]}) for start in range(0, len(frames), batch)
        ]
        return _result(parts)

    def faults(self, faults: Mapping[str, object]) -> None:
        """Inject faults; an empty mapping heals the device. Programs stay loaded."""
        self._ask({"op": "faults", "faults": dict(faults)})

    def check(self, program: str = "model", profile: str | None = None) -> list[str]:
        """Run the device's checking mode; returns what it found wrong with the memory plan, best nothing."""
        header = self._ask({"op": "check", "program": program, "profile": profile}).header
        return [str(finding) for finding in header["findings"]]

    def _ask(
        self,
        request: Mapping[str, object],
        arrays: Mapping[str, Array] | None = None,
        timeout_s: float | None = None,
    ) -> Message:
        pipe = self._pipe
        if pipe is None:
            raise LabError("the lab is not running; use it inside its `with` block")
        parts = list(encode(request, arrays))
        deadline = time.monotonic() + (timeout_s or self._timeout_s)
        try:
            pipe.send(parts, deadline)
            answer = decode(lambda size: pipe.receive(size, deadline))
        except LabError:
            self._close(0.0)  # the stream is of no use after half a message
            raise
        if not answer.header.get("ok"):
            error = answer.header.get("error") or {}
            raise LabRefused(str(error.get("kind", "unknown")), str(error.get("message", "no reason given")))
        return answer


def _result(parts: list[Message]) -> LabResult:
    first = parts[0].header
    names = [name for name in parts[0].arrays if name.startswith("output:")]
    return LabResult(
        outputs={
            name.removeprefix("output:"): np.concatenate([part.arrays[name] for part in parts]).astype(np.uint8)
            for name in names
        },
        latency_ms=np.concatenate([part.arrays["latency_ms"] for part in parts]).astype(np.float64),
        kernels=[KernelRow(**raw) for raw in first["kernels"]],
        nominal_ms={str(model): float(value) for model, value in first["nominal_ms"].items()},
        ddr_bytes=int(first["ddr_bytes"]),
        sram_peak=int(first["sram_peak"]),
        build_id=str(first["build_id"]),
    )
