"""Marks the programs of one device as they are loaded: the file keeps its hashes, memory holds the mark.

The hour is that of the installation: when the bundle's file got its name in the store, so a restart gives the same
mark. A network that is too small to carry a mark runs without one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from contracts.npu.program import Program
from edge_agent.watermark.carriers import mark_program
from edge_agent.watermark.code import Mark, WatermarkError

log = logging.getLogger(__name__)
HOUR_S = 3_600


@dataclass(frozen=True)
class Marker:
    """`batch` of this device and the maker's key."""

    batch: int
    key: bytes = field(repr=False)

    def __call__(self, program: Program, file: Path) -> Program:
        """Return the program of a bundle `file` with this device's mark. Raises OSError."""
        mark = Mark(self.batch, int(file.stat().st_mtime) // HOUR_S)
        try:
            return mark_program(program, mark, self.key)
        except WatermarkError as error:
            log.warning("program of %s runs without a mark: %s", file.name[:16], error)
            return program
