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
from flows.storage import write_whole
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

    def __init__(self, folder: Path, seeds: Path = SEEDS, first: Architecture = HAND_MADE) -> None:
        self._folder, self._seeds, self._first = folder, seeds, first

    def current(self) -> Generation:
        """The newest released generation, or the seeds."""
        pointer = self._folder / "current"
        if pointer.exists():
            return self._read(pointer.read_text().strip(), self._folder / pointer.read_text().strip())
        return self._read("seed", self._seed_folder())

    def generation(self, name: str) -> Generation:
        """The generation of this name: what a run that was begun with it goes on with."""
        return self._read(name, self._seed_folder() if name == "seed" else self._folder / name)

    def add(self, name: str, files: dict[str, bytes], architecture: Architecture, conditions: tuple[str, ...]) -> Path:
        """Write a generation without making it current. Writing the same again changes nothing; other files under
        the same name replace it, and at every moment one of the two is there.
        """
        final, temporary, aside = (self._folder / form.format(name) for form in ("{}", ".{}.part", ".{}.old"))
        described = {"architecture": architecture.to_json(), "conditions": list(conditions)}
        whole = {**files, "model.json": json.dumps(described).encode()}
        if _holds(final, whole):
            return final
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for file, data in whole.items():
            write_whole(temporary / file, lambda out, data=data: out.write(data))  # type: ignore[misc]  # bound early on purpose
        if final.exists():
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(final, aside)
        os.replace(temporary, final)
        shutil.rmtree(aside, ignore_errors=True)
        return final

    def promote(self, name: str) -> None:
        """Make a generation current."""
        missing = [file for file in _FILES if not (self._folder / name / file).exists()]
        if missing:
            raise FlowError(f"generation {name} lacks {', '.join(missing)}; run the flow again")
        write_whole(self._folder / "current", lambda out: out.write(name.encode()))

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
            self.add("seed", files, self._first, ())
        return folder

    def _read(self, name: str, folder: Path) -> Generation:
        aside = folder.with_name(f".{name}.old")
        if not folder.exists() and aside.exists():
            os.replace(aside, folder)  # killed between the two renames of `add`
        try:
            described = json.loads((folder / "model.json").read_text())
            architecture = Architecture.from_json(described["architecture"])
            return Generation(name, folder, architecture, tuple(described["conditions"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FlowError(f"generation {name} in {folder} cannot be read ({error}); remove the folder") from error


def _holds(folder: Path, files: dict[str, bytes]) -> bool:
    return folder.is_dir() and {path.name: path.read_bytes() for path in folder.iterdir()} == files
