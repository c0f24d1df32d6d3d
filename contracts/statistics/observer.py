"""Observer parameters: how a device turns an embedding into a score and into reference units.

Made once per quality net from healthy frames, shipped in every bundle as `observer.npz`. Statistics of two
observers are never mixed: every report names the embedding that it was made with.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

CLIP = 8.0
MAX_BYTES = 1_000_000
MAX_IDENTITY = 64
_SHAPES: dict[str, tuple[int, ...]] = {
    "mu0": (DIMENSIONS,),
    "sd0": (DIMENSIONS,),
    "projection": (SUBSPACE, DIMENSIONS),
    "directions": (HISTOGRAMS, DIMENSIONS),
    "edges": (HISTOGRAMS, BINS - 1),
    "score_w": (DIMENSIONS,),
    "score_b": (1,),
    "tau": (1,),
}

FloatArray = NDArray[np.float32]


class ObserverError(ValueError):
    """The observer file is not usable; the message names the array and the remedy."""


@dataclass(frozen=True)
class ObserverParameters:
    """Reference mean and spread, whitened projection, histogram directions and edges, score head, threshold.

    `score` is dB of expected quality loss; a frame is hard when its score exceeds `tau`.
    """

    embedding_id: str
    mu0: FloatArray
    sd0: FloatArray
    projection: FloatArray
    directions: FloatArray
    edges: FloatArray
    score_w: FloatArray
    score_b: float
    tau: float

    def standardize(self, embedding: FloatArray) -> tuple[NDArray[np.float64], bool]:
        """Return the embedding in reference units, clipped to +/- 8, and whether anything was clipped."""
        z = (embedding.astype(np.float64) - self.mu0) / self.sd0
        clipped = np.clip(z, -CLIP, CLIP)
        return clipped, bool(np.any(clipped != z))

    def project(self, z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the 28 subspace coordinates and the 8 histogram bins (0..15) of a standardized embedding."""
        along = self.directions.astype(np.float64) @ z
        bins = (along[:, None] > self.edges).sum(axis=1).astype(np.int64)
        return self.projection.astype(np.float64) @ z, bins

    def score(self, embedding: FloatArray) -> float:
        """Return the expected quality loss in dB."""
        return float(self.score_w.astype(np.float64) @ embedding.astype(np.float64) + self.score_b)

    def to_bytes(self) -> bytes:
        """Write the parameters; equal parameters give equal bytes."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {  # Any: numpy types the keywords of savez as its own options
            name: np.asarray(getattr(self, name), dtype=np.float32).reshape(s) for name, s in _SHAPES.items()
        }
        np.savez(buffer, embedding_id=np.frombuffer(self.embedding_id.encode("ascii"), dtype=np.uint8), **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> ObserverParameters:
        """Read and check parameters. Raises ObserverError on anything that is not exactly as written."""
        if len(data) > MAX_BYTES:
            raise ObserverError(f"observer file has {len(data)} bytes, more than {MAX_BYTES}")
        try:
            _check_directory(data)
            with np.load(io.BytesIO(bytes(data)), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in (*_SHAPES, "embedding_id")}
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise ObserverError(
                f"observer file cannot be read ({error}); make it again with `edgeloop seed`"
            ) from error
        except Exception as error:  # zipfile raises its own kinds on damaged archives
            raise ObserverError(f"observer file is damaged ({type(error).__name__})") from error
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ObserverError(f"observer member {name!r} is not an array")
        for name, shape in _SHAPES.items():
            if arrays[name].dtype.kind not in "fiu" or arrays[name].shape != shape or not _holds(arrays[name]):
                raise ObserverError(f"observer array {name!r} must be finite in 32 bits with shape {shape}")
        if np.any(arrays["sd0"].astype(np.float32) <= 0):
            raise ObserverError("observer array 'sd0' must be positive")
        return cls(
            embedding_id=_identity(arrays["embedding_id"]),
            score_b=float(arrays["score_b"][0]),
            tau=float(arrays["tau"][0]),
            **{
                name: arrays[name].astype(np.float32)
                for name in ("mu0", "sd0", "projection", "directions", "edges", "score_w")
            },
        )


def _check_directory(data: bytes | memoryview) -> None:
    """Refuse an archive that says, or hides, that it unpacks to more than parameters are."""
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > MAX_BYTES:
        raise ObserverError(f"observer file unpacks to {unpacked} bytes, more than {MAX_BYTES}")


def _holds(array: NDArray[Any]) -> bool:  # Any: as read, checked here
    """Whether every number is finite as a float of 32 bits."""
    return bool(np.all(np.abs(array.astype(np.float64)) <= float(np.finfo(np.float32).max)))


def _identity(array: NDArray[Any]) -> str:  # Any: as read, checked here
    text = array.tobytes()
    if not 1 <= len(text) <= MAX_IDENTITY or not all(33 <= byte <= 126 for byte in text):
        raise ObserverError(f"observer array 'embedding_id' must be 1 to {MAX_IDENTITY} visible characters")
    return text.decode("ascii")
