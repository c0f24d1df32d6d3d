"""Observer parameters from healthy frames: reference mean and spread, whitened subspace, histogram edges, score, tau.

The subspace is a PCA of the standardised embedding with a shrinkage floor, so that directions in which healthy frames
hardly vary do not blow up. One of the eight histogram directions is the score's own.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS, SUBSPACE
from contracts.statistics.observer import ObserverParameters

_SHRINKAGE = 0.1
_SPREAD_FLOOR = 0.05
_RIDGE = 1e-2
_HEALTHY_TAIL = 0.995
_HARD_TAIL = 0.10
_TAU_SHARE = 0.25

Floats = NDArray[np.float64]


def build_observer(
    quality_model: bytes, healthy: NDArray[np.float32], score_w: Floats, score_b: float, tau: float
) -> ObserverParameters:
    """Parameters from embeddings of healthy frames [n, 256], the linear score head and its threshold."""
    values = healthy.astype(np.float64)
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    deviation = np.maximum(deviation, max(_SPREAD_FLOOR * float(deviation.max()), 1e-6))
    standard = (values - mean) / deviation
    projection = whitening(standard)
    directions = np.vstack([projection[: HISTOGRAMS - 1], _unit(score_w * deviation)])
    return ObserverParameters(
        embedding_id=hashlib.sha256(quality_model).hexdigest()[:16],
        mu0=mean.astype(np.float32),
        sd0=deviation.astype(np.float32),
        projection=projection.astype(np.float32),
        directions=directions.astype(np.float32),
        edges=_edges(standard @ directions.T).astype(np.float32),
        score_w=score_w.astype(np.float32),
        score_b=float(score_b),
        tau=tau,
    )


def whitening(standard: Floats) -> Floats:
    """[28, 256] rows that give about unit variance each on healthy frames; variances are floored by shrinkage."""
    covariance = np.cov(standard, rowvar=False)
    variance, axes = np.linalg.eigh(covariance)
    order = np.argsort(variance)[::-1][:SUBSPACE]
    floored = (1.0 - _SHRINKAGE) * variance[order] + _SHRINKAGE * np.trace(covariance) / len(covariance)
    signs = np.sign(axes[np.abs(axes[:, order]).argmax(axis=0), order])
    return np.asarray((axes[:, order] * signs / np.sqrt(floored)).T)


def fit_score(embeddings: NDArray[np.float32], losses: Floats) -> tuple[Floats, float]:
    """Ridge regression of measured losses (dB) on pooled embeddings."""
    values = embeddings.astype(np.float64)
    centre, offset = values.mean(axis=0), float(losses.mean())
    centred = values - centre
    gram = centred.T @ centred / len(values)
    ridge = _RIDGE * np.trace(gram) / len(gram)
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), centred.T @ (losses - offset) / len(values))
    return weights, offset - float(centre @ weights)


def choose_tau(healthy: Floats, hard: Floats) -> float:
    """A quarter of the way from the top of healthy to the bottom of hard scores; above the healthy tail in any case."""
    top = float(np.quantile(healthy, _HEALTHY_TAIL))
    return top + _TAU_SHARE * max(0.0, float(np.quantile(hard, _HARD_TAIL)) - top)


def _edges(along: Floats) -> Floats:
    shares = np.arange(1, BINS) / BINS
    edges = np.quantile(along, shares, axis=0).T
    steps = 1e-4 * np.arange(BINS - 1)
    return np.asarray(np.maximum.accumulate(edges, axis=1) + steps)


def _unit(vector: Floats) -> Floats:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12))
