"""LPIPS of the example pair that its authors publish, with the weights that the product fetches."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from benchmarks.teaching.judging import lpips_metric
from benchmarks.teaching.kept import CHECKOUT
from edgeloop.figures import Figure
from flows.perceptual.lpips import lpips_of

FOLDER = CHECKOUT.parent / "shared" / "data" / "weights" / "lpips"
PUBLISHED = {"ex_p0": 0.722, "ex_p1": 0.138}
"""Distances from `ex_ref`, AlexNet 0.1 (Zhang et al. 2018, arXiv 1801.03924, the example of their repository)."""


def reference_figures(folder: Path = FOLDER) -> list[Figure]:
    """Both distances, to three digits; not ok where the pictures are not at hand."""
    figures = []
    for name, wanted in PUBLISHED.items():
        label, reach = f"lpips.{name}", f"{wanted:g} to 3 digits"
        missing = [file for file in ("ex_ref", name) if not (folder / f"{file}.png").is_file()]
        if missing:
            figures.append(Figure(label, "not measured", f"{missing[0]}.png is not in {folder}", reach, False))
            continue
        picture, reference = (_picture(folder / f"{file}.png") for file in (name, "ex_ref"))
        found = round(float(lpips_of(lpips_metric(), picture, reference)[0]), 3)
        figures.append(Figure(label, found, "LPIPS from the reference picture", reach, found == wanted))
    return figures


def _picture(path: Path) -> np.ndarray:
    """[1, rows, columns, 3], RGB."""
    with av.open(str(path)) as file:
        return next(file.decode(video=0)).to_ndarray(format="rgb24")[None]
