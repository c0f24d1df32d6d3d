"""A contact sheet of the stand-ins: for each, the clean picture and what a receiver gets of it, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.corpus import Clip
from flows.data.degrade import Degradation, degrade
from flows.data.pairs import View, load_view
from flows.run_folder import Json

MAX_TILES = 24
_FRAMES = 6
_TILE = (90, 120)
_GAP = 4
_COLUMNS = 3


def pick(stand_ins: Sequence[Json], count: int = MAX_TILES) -> list[Json]:
    """At most `count` stand-ins, of every cluster those that reached most members, clusters in turn."""
    queues: dict[str, list[Json]] = {}
    for one in sorted(stand_ins, key=lambda one: (-one["reached"], one["distance"], one["clip"])):
        queues.setdefault(str(one["cluster"]), []).append(one)
    found: list[Json] = []
    while any(queues.values()) and len(found) < count:
        for name in sorted(queues):
            if queues[name] and len(found) < count:
                found.append(queues[name].pop(0))
    return found


def contact_sheet(stand_ins: Sequence[Json], clips: Mapping[str, Clip]) -> tuple[NDArray[np.uint8], list[Json]]:
    """(picture [h, w, 3], one row of legend for each tile in reading order). Raises ValueError without stand-ins."""
    tiles, legend = [], []
    for one in pick(stand_ins):
        clip = clips.get(one["clip"])
        pictures = None if clip is None else _pictures(clip, one)
        if pictures is not None:
            tiles.append(np.concatenate([_fit(picture) for picture in pictures], axis=1))
            legend.append({name: one[name] for name in ("cluster", "clip", "degradation", "distance", "reached")})
    if not tiles:
        raise ValueError("no stand-in can be shown: none of their clips is in the corpus")
    return _sheet(tiles), [{"tile": number, **row} for number, row in enumerate(legend, 1)]


def _pictures(clip: Clip, one: Json) -> tuple[Frames, Frames] | None:
    raw = dict(one["view"])
    view = View(**{**raw, "crop": tuple(raw["crop"]) if raw.get("crop") else None})
    high = load_view(clip, replace(view, limit=_FRAMES))
    if high is None:
        return None
    low, target = degrade(high, Degradation(**one["degradation"]), clip.fps)
    return target[-1], low[-1].repeat(2, axis=0).repeat(2, axis=1)


def _fit(picture: Frames) -> Frames:
    """Nearest pixels, whole picture, black bars."""
    scale = max(picture.shape[0] / _TILE[0], picture.shape[1] / _TILE[1])
    height, width = (max(1, min(tile, int(side / scale))) for tile, side in zip(_TILE, picture.shape, strict=False))
    rows = (np.arange(height) * picture.shape[0]) // height
    columns = (np.arange(width) * picture.shape[1]) // width
    tile = np.zeros((*_TILE, 3), np.uint8)
    top, left = (_TILE[0] - height) // 2, (_TILE[1] - width) // 2
    tile[top : top + height, left : left + width] = picture[rows][:, columns]
    return tile


def _sheet(tiles: Sequence[Frames]) -> NDArray[np.uint8]:
    rows = -(-len(tiles) // _COLUMNS)
    height, width = tiles[0].shape[0] + _GAP, tiles[0].shape[1] + _GAP
    sheet = np.full((rows * height + _GAP, min(len(tiles), _COLUMNS) * width + _GAP, 3), 255, np.uint8)
    for index, tile in enumerate(tiles):
        top, left = index // _COLUMNS * height + _GAP, index % _COLUMNS * width + _GAP
        sheet[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return sheet
