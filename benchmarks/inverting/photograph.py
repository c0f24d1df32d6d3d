"""One sharp photograph of a person, 512 x 512: `astronaut` out of scikit-image's wheel.

Portraits of a webcam are soft and stand before a wall, where any two pictures resemble each other. This one is full of
detail, so it shows whether an attacker gets any of it. The picture is NASA's, in the public domain. The wheel is
fetched once, into `build/peers`; nothing of it is installed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from benchmarks.peers.environment import wheel
from flows.data.clips import Frames, decode

REQUIREMENT = "scikit-image==0.26.0"
MEMBER = "skimage/data/astronaut.png"
FOLDER = Path(__file__).resolve().parents[2] / "build" / "peers" / "scikit-image"
PERSON, FACE = "astronaut", (222, 112)
"""`FACE` is (x, y) of the middle of the face."""


def photograph(folder: Path = FOLDER) -> Frames:
    """The picture, u8 [512, 512, 3]. Needs a package index the first time; raises PeerFailed."""
    with zipfile.ZipFile(wheel(folder, REQUIREMENT)) as archive:
        file = archive.extract(MEMBER, folder)
    return decode(Path(file), 0, 1)[0]
