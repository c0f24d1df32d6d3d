"""What the received stream itself says about a frame: how coarsely it was quantised.

A small net sees one picture and cannot tell a soft scene from one that a codec made soft; the decoder knows. The loss
of an upscaled picture grows with the mean quantiser of its blocks, about 0.44 dB a step above 23 on the training clips
(`flows.quality.stream` measures the line; its test holds these numbers). A frame counts as hard by its picture or by
its stream, whichever says so first.

Known for H.264, whose decoder gives quantisers away; for anything else there is no evidence, and the picture alone
decides.
"""

from __future__ import annotations

import math

COARSEST = 51.0
"""Largest quantiser of H.264."""

DB_PER_STEP = 0.44
LOSSLESS_FROM = 23.2
"""Mean quantiser at which the line reaches no loss."""

HARD_FROM = 34.2
"""One step coarser than any healthy training call (crf 26 and finer) ever was."""


def expected_loss(quantiser: float) -> float:
    """dB of PSNR that an upscaled frame of this mean quantiser (0..51) is expected to lose; 0 where it is unknown."""
    if not math.isfinite(quantiser):
        return 0.0
    return max(0.0, DB_PER_STEP * (min(quantiser, COARSEST) - LOSSLESS_FROM))


def hardness(score: float, tau: float, quantiser: float) -> float:
    """The score that decides about a frame: that of the picture, or the stream's.

    The stream's is laid so that it passes `tau` where the quantiser passes `HARD_FROM`.
    """
    return max(score, tau + expected_loss(quantiser) - expected_loss(HARD_FROM))
