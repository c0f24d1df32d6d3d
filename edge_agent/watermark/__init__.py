"""Which batch of devices a leaked program came from, and when it was installed: hidden in weights, read by key."""

from __future__ import annotations

from edge_agent.watermark.carriers import mark_program, read_program
from edge_agent.watermark.code import Mark, Reading, WatermarkError
from edge_agent.watermark.marker import Marker

__all__ = ["Mark", "Marker", "Reading", "WatermarkError", "mark_program", "read_program"]
