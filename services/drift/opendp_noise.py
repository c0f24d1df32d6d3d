"""Noise by OpenDP (`pip install 'edgeloop[privacy]'`), for those who want a library that others have audited.

The same interface as our own sampler, which is the default and needs nothing installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt


def opendp_noise(values: Sequence[int], sigma_squared: Fraction) -> list[int]:
    """Add discrete Gaussian noise with OpenDP. Raises ImportError when the extra is not installed."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    measure = dp.m.make_gaussian(*space, scale=sqrt(float(sigma_squared)))
    return [int(value) for value in measure([int(value) for value in values])]
