"""Recordings with people in them, split by person.

They lie beside the checkout, in `../shared/data/video`, or where EDGELOOP_PEOPLE says: `intel-asl` (18 recordings of
four people who sign in front of one fixed webcam, 640 x 480; CC BY 4.0, Intel IoT DevKit sample-videos). They are read
from there and never become part of the product. Without them the only held-out person is the man of `carphone`, which
comes with the default corpus.

The places of the heads (centre of the face in pixels of the 640 x 480 picture) were marked by eye on frame 20.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "EDGELOOP_PEOPLE"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "video"
TRAINING, HELD_OUT = ("hoodie", "orange"), ("grey", "black")
RECORDINGS = {
    "hoodie": {"again": (323, 86), "brother": (291, 93), "help": (338, 98), "no": (311, 88), "student": (306, 93),
               "yes": (309, 93)},
    "orange": {"book": (299, 122), "learn": (304, 127), "school": (313, 125), "walk": (296, 130)},
    "grey": {"bird": (306, 73), "milk": (311, 64), "please": (299, 78), "sorry": (311, 69), "thanks": (301, 76)},
    "black": {"eat": (301, 118), "night": (299, 115), "sister": (301, 110)},
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """One recording of one person; `face` is (x, y) of the middle of the face."""

    person: str
    name: str
    path: Path
    face: tuple[int, int]


def recordings(folder: Path | None = None) -> list[Recording]:
    """Every recording that is there, by person and name; empty when the folder is not."""
    root = (folder or Path(os.environ.get(VARIABLE, BESIDE))) / "intel-asl"
    found = [
        Recording(person, name, root / f"{name}.mkv", face)
        for person, names in RECORDINGS.items()
        for name, face in sorted(names.items())
    ]
    return [recording for recording in found if recording.path.is_file()]
