"""The three files of a build, checked before they are stored: sizes, then structure.

Only structure is judged here (can it be read at all); what the compiler cannot compile is its own, later answer.
Nothing outside the bytes is opened: a model that points to external data is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import onnx

from contracts.statistics.observer import ObserverParameters
from services.builds.limits import UPLOADS
from services.builds.problems import DamagedPart, PartTooLarge
from services.kit.problems import FieldError

PART_LIMITS = {
    "model": UPLOADS.model_bytes,
    "quality": UPLOADS.quality_bytes,
    "observer": UPLOADS.observer_bytes,
}


@dataclass(frozen=True)
class Upload:
    """One part as received."""

    part: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hash of the bytes, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def key(self) -> str:
        """Where the object store keeps it: by content, so that the same file is kept once."""
        return f"builds/inputs/{self.sha256}"


def check(upload: Upload) -> None:
    """Raise PartTooLarge or DamagedPart unless the part can be read."""
    limit = PART_LIMITS[upload.part]
    if len(upload.data) > limit:
        raise PartTooLarge(f"part {upload.part} has {len(upload.data):,} bytes, allowed are {limit:,}")
    try:
        if upload.part == "observer":
            ObserverParameters.from_bytes(upload.data)
        else:
            _check_model(upload.data)
    except (ValueError, KeyError, OSError, EOFError, onnx.checker.ValidationError) as error:
        raise _damaged(upload, error) from error


def _check_model(data: bytes) -> None:
    model = _parse(data)
    if not model.graph.node:
        raise ValueError("the graph has no nodes")
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"weight {tensor.name!r} lies in another file; export with the weights inside")
    onnx.checker.check_model(model)


def _parse(data: bytes) -> onnx.ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except Exception as error:  # the parser of protobuf raises kinds of its own, which differ between its versions
        raise ValueError(f"the bytes do not parse: {error}") from error


def _damaged(upload: Upload, error: Exception) -> DamagedPart:
    kind = "an observer npz" if upload.part == "observer" else "an ONNX model"
    reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    detail = f"part {upload.part} is not {kind} ({reason}); export it again and check its hash {upload.sha256[:16]}"
    return DamagedPart(detail, errors=[FieldError(f"/{upload.part}", reason)])
