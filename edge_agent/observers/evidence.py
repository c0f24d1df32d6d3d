"""What makes a frame hard: the quality net's score, the received stream, or a plain sign of the picture itself.

A small net sees one picture and is trained on few scenes; it cannot tell a soft scene from one that a codec made soft.
The decoder knows how coarsely it quantised, and grain and soft edges can be measured. Each kind of evidence has a line
from its measure to dB of PSNR that the upscaled frame is expected to lose, and a bound that no healthy training call
reached; a frame counts as hard by whichever evidence passes its bound first. Lines and bounds are measured on training
clips by `flows.quality.evidence`, whose test holds these numbers.

Quantisers are known for H.264; for anything else the stream gives no evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edge_agent.observers.signs import Signs

_MOST_DB = 15.0


@dataclass(frozen=True)
class Line:
    """Expected loss = `slope` * (measure - `zero`) dB; `bound` is the measure from which a frame counts as hard."""

    slope: float
    zero: float
    bound: float

    def loss(self, measure: float) -> float:
        """dB, between 0 and 15; 0 where the measure is unknown."""
        return min(_MOST_DB, max(0.0, self.slope * (measure - self.zero))) if math.isfinite(measure) else 0.0

    def over(self, measure: float) -> float:
        """dB over the bound, negative below it; minus infinity where the measure is unknown."""
        return self.loss(measure) - self.loss(self.bound) if math.isfinite(measure) else -math.inf


STREAM = Line(0.44, 23.2, 34.2)
"""Mean quantiser 0..51; the bound is one step coarser than any healthy training call (crf 26 and finer) ever was."""

GRAIN = Line(1.07, 0.5, 4.2)
"""Grain in LSB; healthy training calls reach 3.2."""

SOFTNESS = Line(43.6, -0.785, -0.70)
"""Minus sharpness; healthy training calls come down to a sharpness of 0.73."""


def hardness(score: float, tau: float, quantiser: float, signs: Signs) -> float:
    """The score that decides about a frame: the net's, or `tau` plus what the strongest evidence is over its bound."""
    over = max(STREAM.over(quantiser), GRAIN.over(signs.grain), SOFTNESS.over(-signs.sharpness))
    return max(score, tau + over)
