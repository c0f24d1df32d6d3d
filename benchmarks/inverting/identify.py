"""Can uploads tell who it was? Nearest centroid with other recordings of the same four people as the gallery.

A probe is one recording; the attacker has every other recording of all people, names them, and compares. Descriptions:
of an upload, per-channel means, spreads and histograms over all its cells (everything that does not depend on their
order); of the picture itself, an 8 x 8 thumbnail, to show that the test could find people if they were there. Each
description is whitened by its spread inside recordings, so that the room, which is the same for all, counts little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.inverting.material import Shot
from benchmarks.inverting.victim import Codes

Floats = NDArray[np.float64]


def describe_codes(codes: Codes) -> Floats:
    """Order-free description of codes (frames, rows, columns, channels): 16 x (mean, spread, 16 counts)."""
    cells = codes.reshape(-1, codes.shape[-1])
    counts = np.stack([np.bincount(channel, minlength=16) for channel in cells.T]) / len(cells)
    return np.concatenate([cells.mean(0) / 15.0, cells.std(0) / 15.0, counts.ravel()])


def describe_picture(shot: Shot) -> Floats:
    """8 x 8 thumbnail of the last frame, colours in 0..1."""
    frame = shot.frames[-1].astype(np.float64) / 255.0
    rows, columns = frame.shape[0] // 8, frame.shape[1] // 8
    return np.asarray(frame.reshape(8, rows, 8, columns, 3).mean(axis=(1, 3)).ravel())


def hits(shots: Sequence[Shot], described: Floats) -> tuple[int, int]:
    """(right names, probes): every recording once, against all others. Descriptions [n, k] belong to `shots`."""
    people = sorted({shot.person for shot in shots})
    recordings = sorted({shot.recording for shot in shots})
    owner = {shot.recording: shot.person for shot in shots}
    place = np.array([recordings.index(shot.recording) for shot in shots])
    middles = np.stack([described[place == index].mean(0) for index in range(len(recordings))])
    inside = np.sqrt(np.mean([described[place == i].var(0) for i in range(len(recordings))], axis=0))
    middles = middles / (inside + 0.1 * middles.std(0) + 1e-3)
    right = 0
    for index, name in enumerate(recordings):
        distances = []
        for person in people:
            others = [i for i, r in enumerate(recordings) if owner[r] == person and i != index]
            distances.append(np.linalg.norm(middles[index] - middles[others].mean(0)) if others else np.inf)
        right += people[int(np.argmin(distances))] == owner[name]
    return right, len(recordings)


def chance(shots: Sequence[Shot]) -> float:
    """Share of right names for a guess that always says the most frequent person."""
    owner = {shot.recording: shot.person for shot in shots}
    names = list(owner.values())
    return max(names.count(name) for name in names) / len(names)
