"""Everything that is measured for one seed, each stage kept when it is done.

A row is what became of one way to quantise: dB on the judged person, and how far its fake quantisation is from ONNX
Runtime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from benchmarks.peers.quantisers.run import PEERS, run_peer
from benchmarks.peers.quantisers.task import FAKE, MODEL, Task
from benchmarks.quantising.cache import FOLDER, Json, Stage, done
from benchmarks.quantising.judging import (
    Distance,
    device_differences,
    distance,
    fake_outputs,
    proof_frames,
    quality,
    runtime_outputs,
)
from benchmarks.quantising.material import Material, judged, learned
from benchmarks.quantising.own import WAYS, quantise
from benchmarks.quantising.static import METHODS, static
from benchmarks.quantising.steps import train
from benchmarks.quantising.twin import export_float
from benchmarks.teaching.anchor import load_anchor
from benchmarks.teaching.level import level, place
from flows.data.pairs import Pair
from flows.quant.lsq import PIXEL_SCALE
from flows.tasks.training import Progress

STEPS, RATE = 150, 2e-4
PLAYED = ("ptq", "own")
"""Ways whose models the emulated device plays."""

_TRAINED = ("benchmarks/quantising/material.py", "benchmarks/quantising/steps.py", "flows/tasks/training.py")
_JUDGED = (*_TRAINED, "benchmarks/quantising/judging.py")
_QUANT = ("lsq", "stages", "adaround", "calibrate", "divergence", "integer", "networks", "export", "qdq")
_OWN = (
    *_JUDGED,
    "benchmarks/quantising/own.py",
    "benchmarks/quantising/twin.py",
    *(f"flows/quant/{name}.py" for name in _QUANT),
)


@dataclass(frozen=True)
class Seed:
    """One seed's stages. `start` gives the float weights in place of the trained anchor; tests make steps few."""

    number: int
    folder: Path = FOLDER
    start: Path | None = None
    steps: int = STEPS
    rate: float = RATE

    @cached_property
    def material(self) -> Material:
        """What may be learned from."""
        return learned()

    @cached_property
    def clips(self) -> tuple[Pair, ...]:
        """What is judged."""
        return judged()

    def anchor(self, progress: Progress | None = None) -> Json:
        """The float start, the one that `bench learning` trains and keeps: dB, steps, CPU seconds."""
        told: Json = {} if self.start else dict(level(self.number, progress)["training"])
        found = quality(load_anchor(self._weights), self.clips)
        facts = {"steps": told.get("iterations", 0), "cpu_s": told.get("cpu_seconds", 0.0)}
        return {"rgb": found.rgb, "luma": found.luma, **facts}

    def trained_on(self, progress: Progress | None = None) -> Json:
        """The float net trained as long as the quantised ones: dB; its weights are `on.pt`."""

        def make(folder: Path) -> Json:
            net = load_anchor(self._weights)
            train(net, net, self.number, self.steps, self.rate, self.material, progress)
            torch.save(net.state_dict(), folder / "on.pt")
            found = quality(net, self.clips)
            return {"rgb": found.rgb, "luma": found.luma}

        return done(self._on, make, self.folder)

    def own(self, way: str, progress: Progress | None = None) -> Json:
        """Ours, one way."""

        def make(folder: Path) -> Json:
            made = quantise(
                WAYS[way], self._weights, self.number, self.steps, self.rate, self.material, progress, folder / "qat.pt"
            )
            (folder / MODEL).write_bytes(made.model)
            frames = proof_frames(self.clips)
            fused = runtime_outputs(made.model, frames)
            facts = _row(made.model, self.clips, {
                "trained": distance(fake_outputs(made.network, frames, exact=False), fused, _scale(made.model)),
                "exact": distance(fake_outputs(made.network, frames, exact=True), fused, _scale(made.model)),
                "unfused": distance(
                    fake_outputs(made.network, frames, exact=False), runtime_outputs(made.model, frames, fused=False),
                    _scale(made.model),
                ),
            })  # fmt: skip
            facts["cpu_s"] = round(made.cpu_s, 1)
            if way in PLAYED:
                facts["device_differences"], facts["device_values"] = device_differences(made.model, frames)
            return facts

        return done(Stage(f"own-{way}", self.number, self._settings, _OWN), make, self.folder)

    def runtime(self, method: str) -> Json:
        """ONNX Runtime's static quantisation of the net that was trained on."""

        def make(folder: Path) -> Json:
            self.trained_on()
            model = export_float(load_anchor(self._on.folder(self.folder) / "on.pt"))
            made = static(model, self.material.calibration(self.number), method, folder)
            (folder / MODEL).write_bytes(made)
            return _row(made, self.clips, {})

        return done(
            Stage(method, self.number, self._settings, (*_OWN, "benchmarks/quantising/static.py")), make, self.folder
        )

    def peer(self, name: str) -> Json:
        """Another quantiser from the same start. Raises PeerFailed."""

        def make(folder: Path) -> Json:
            frames = proof_frames(self.clips)
            np.save(folder / "frames.npy", frames)
            Task(str(self._weights), str(folder / "frames.npy"), self.number, self.steps, self.rate).write(folder)
            told = run_peer(name, folder)
            model = (folder / MODEL).read_bytes()
            with np.load(folder / FAKE, allow_pickle=False) as stored:
                fake = [stored[key] for key in stored.files]
            scale = _scale(model)
            return {
                **_row(model, self.clips, {
                    "trained": distance(fake, runtime_outputs(model, frames), scale),
                    "unfused": distance(fake, runtime_outputs(model, frames, fused=False), scale),
                }),
                **told,
            }  # fmt: skip

        module = f"benchmarks/peers/quantisers/{PEERS[name].module}.py"
        code = (*_JUDGED, "benchmarks/peers/quantisers/task.py", module)
        settings = {**self._settings, "requirements": list(PEERS[name].requirements)}
        return done(Stage(name, self.number, settings, code), make, self.folder)

    @cached_property
    def _settings(self) -> Json:
        """What everything behind the start depends on besides code."""
        data = _digest(array for pair in (*self.material.pairs.pairs, *self.clips) for array in (pair.low, pair.high))
        start = hashlib.sha256(self._weights.read_bytes()).hexdigest()
        return {"start": start, "data": data, "steps": self.steps, "rate": self.rate}

    @property
    def _on(self) -> Stage:
        return Stage("fp32-on", self.number, self._settings, _JUDGED)

    @cached_property
    def _weights(self) -> Path:
        return self.start or place(self.number).folder / f"anchor-seed{self.number}.pt"


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def _row(model: bytes, clips: tuple[Pair, ...], distances: dict[str, Distance]) -> Json:
    found = quality(model, clips)
    return {"rgb": found.rgb, "luma": found.luma, **{name: vars(one) for name, one in distances.items()}}


def _scale(model: bytes) -> float:
    """Step of the grid that the output lies on; that of pixels when it lies on none."""
    graph = onnx.load_from_string(model).graph
    values = {
        one.name: float(numpy_helper.to_array(one).ravel()[0]) for one in graph.initializer if one.dims in ([], [1])
    }
    made = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            array = numpy_helper.to_array(node.attribute[0].t)
            if array.size == 1:
                values[node.output[0]] = float(array.ravel()[0])
    last = made[graph.output[0].name]
    return values.get(last.input[1], PIXEL_SCALE) if last.op_type == "DequantizeLinear" else PIXEL_SCALE


__all__ = ["METHODS", "PEERS", "WAYS", "Seed"]
