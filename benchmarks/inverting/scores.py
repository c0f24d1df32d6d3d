"""How much of a picture came back: PSNR over RGB and SSIM of luma.

SSIM as Wang et al. 2004 define it: Gaussian window of 11 x 11 with sigma 1.5, K1 = 0.01, K2 = 0.03, a range of 255, the
mean over all windows that lie inside the picture.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from flows.data.clips import Frames

_LUMA = np.array([0.299, 0.587, 0.114])
_C1, _C2 = (0.01 * 255.0) ** 2, (0.03 * 255.0) ** 2

_SIGMA, _REACH = 1.5, 5
"""Of the window: its deviation, and how far it goes to either side."""

Floats = NDArray[np.float64]


def psnr(picture: Frames, truth: Frames) -> float:
    """dB over all three colours of one picture [h, w, 3]."""
    error = float(np.square(picture.astype(np.float64) - truth).mean())
    return 10.0 * np.log10(255.0**2 / max(error, 1e-9))


def ssim(picture: Frames, truth: Frames) -> float:
    """Mean structural similarity of luma, 1 for equal pictures of at least 11 x 11."""
    a, b = picture.astype(np.float64) @ _LUMA, truth.astype(np.float64) @ _LUMA
    mean_a, mean_b = _blurred(a), _blurred(b)
    var_a, var_b = _blurred(a * a) - mean_a**2, _blurred(b * b) - mean_b**2
    covariance = _blurred(a * b) - mean_a * mean_b
    top = (2 * mean_a * mean_b + _C1) * (2 * covariance + _C2)
    everywhere = top / ((mean_a**2 + mean_b**2 + _C1) * (var_a + var_b + _C2))
    return float(everywhere[_REACH:-_REACH, _REACH:-_REACH].mean())


def _blurred(values: Floats) -> Floats:
    return np.asarray(gaussian_filter(values, _SIGMA, radius=_REACH))
