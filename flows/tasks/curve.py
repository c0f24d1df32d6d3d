"""The learning curve of one training: kept inside its checkpoint while it runs, and beside it when it has ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from flows.storage import write_whole


@dataclass
class Curve:
    """Points (step, share of the budget, smoothed loss), and how often training had to step back."""

    points: list[tuple[int, float, float]] = field(default_factory=list)
    retreats: int = 0

    @property
    def steps(self) -> int:
        """Steps done when the last point was taken."""
        return self.points[-1][0] if self.points else 0

    def save(self, path: Path) -> None:
        """Write the curve as JSON."""
        rows = [{"step": step, "share": share, "loss": loss} for step, share, loss in self.points]
        data = json.dumps({"points": rows, "retreats": self.retreats}, indent=1).encode()
        write_whole(path, lambda file: file.write(data))

    @staticmethod
    def load(path: Path) -> Curve:
        """Inverse of `save`."""
        raw = json.loads(path.read_text())
        points = [(int(row["step"]), float(row["share"]), float(row["loss"])) for row in raw["points"]]
        return Curve(points, int(raw["retreats"]))


def curve_of(checkpoint: Path) -> Path:
    """Where the curve of the training that keeps this checkpoint lies: `finetune.pt` has `finetune.curve.json`."""
    return checkpoint.with_suffix(".curve.json")
