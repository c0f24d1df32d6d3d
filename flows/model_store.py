"""The models that the next run starts from: supernet, production network, quality net, observer.

Before the first retraining these are the committed seeds; a run that was released writes its own next to them. A
generation is one folder; `current` names the newest and changes by an atomic rename.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from flows.errors import FlowError
from flows.tasks.vsr.architecture import HAND_MADE, Architecture

SEEDS = Path(__file__).resolve().parent.parent / "seeds"
_FILES = ("model.onnx", "supernet.npz", "quality.onnx", "observer.npz", "model.json")


@dataclass(frozen=True)
class Generation:
    """One production model and what made it."""

    name: str
    folder: Path
    architecture: Architecture
    conditions: tuple[str, ...]
    """Degradations (JSON) that the training set of this generation held beyond the normal ones."""

    @property
    def model(self) -> bytes:
        """QDQ ONNX of the production network."""
        return (self.folder / "model.onnx").read_bytes()

    @property
    def quality(self) -> bytes:
        """QDQ ONNX of the quality net."""
        return (self.folder / "quality.onnx").read_bytes()

    @property
    def observer(self) -> bytes:
        """Observer parameters."""
        return (self.folder / "observer.npz").read_bytes()

    @property
    def supernet(self) -> Path:
        """Weights of the supernet."""
        return self.folder / "supernet.npz"

    @property
    def weights(self) -> Path | None:
        """Float weights of the production network, if they were kept."""
        path = self.folder / "model.npz"
        return path if path.exists() else None


class ModelStore:
    """Generations below a folder; the seeds are generation `seed`."""

    def __init__(self, folder: Path, seeds: Path = SEEDS) -> None:
        self._folder, self._seeds = folder, seeds

    def current(self) -> Generation:
        """The newest released generation, or the seeds."""
        pointer = self._folder / "current"
        if pointer.exists():
            return self._read(pointer.read_text().strip(), self._folder / pointer.read_text().strip())
        return self._read("seed", self._seed_folder())

    def add(self, name: str, files: dict[str, bytes], architecture: Architecture, conditions: tuple[str, ...]) -> Path:
        """Write a generation without making it current. Writing it again replaces it."""
        final = self._folder / name
        temporary = self._folder / f".{name}.part"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        described = {"architecture": architecture.to_json(), "conditions": list(conditions)}
        for file, data in {**files, "model.json": json.dumps(described).encode()}.items():
            (temporary / file).write_bytes(data)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
        return final

    def promote(self, name: str) -> None:
        """Make a generation current."""
        missing = [file for file in _FILES if not (self._folder / name / file).exists()]
        if missing:
            raise FlowError(f"generation {name} lacks {', '.join(missing)}; run the flow again")
        temporary = self._folder / ".current.part"
        temporary.write_text(name)
        os.replace(temporary, self._folder / "current")

    def _seed_folder(self) -> Path:
        folder = self._folder / "seed"
        if not (folder / "model.json").exists():
            missing = [
                f for f in ("v1.onnx", "supernet.npz", "quality.onnx", "observer.npz") if not (self._seeds / f).exists()
            ]
            if missing:
                raise FlowError(f"{self._seeds} lacks {', '.join(missing)}; make the seeds with `edgeloop seed`")
            names = {"v1.onnx": "model.onnx", "v1.npz": "model.npz"}
            files = {
                names.get(path.name, path.name): path.read_bytes()
                for path in self._seeds.iterdir()
                if path.suffix in (".onnx", ".npz")
            }
            self.add("seed", files, HAND_MADE, ())
        return folder

    def _read(self, name: str, folder: Path) -> Generation:
        try:
            described = json.loads((folder / "model.json").read_text())
            architecture = Architecture.from_json(described["architecture"])
            return Generation(name, folder, architecture, tuple(described["conditions"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FlowError(f"generation {name} in {folder} cannot be read ({error}); remove the folder") from error
