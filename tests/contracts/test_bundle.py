"""The bundle file: deterministic, mapped in place; refuses what is not exactly what was built."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from contracts.bundle import (
    Bundle,
    BundleError,
    DamagedPiece,
    ForeignBundle,
    ForeignPiece,
    MissingPiece,
    write_bundle,
)
from contracts.npu import ProgramWriter

BUILD = bytes(range(16))


def program(target: str = "npu-4t", build: bytes = BUILD) -> bytes:
    return ProgramWriter(target, build).to_bytes([], b"constants", b"")


def pieces() -> dict[str, bytes]:
    meta = json.dumps({"build_id": BUILD.hex(), "model": "demo"}).encode()
    return {"npu-4t/model.npu": program(), "meta.json": meta, "model.onnx": b"onnx bytes"}


def write(folder: Path, parts: dict[str, bytes] | None = None) -> Path:
    path = folder / "demo.elb"
    write_bundle(path, parts or pieces(), build_id=BUILD, release_version="1.2.3", security_epoch=4)
    return path


def test_a_bundle_reads_back_what_was_written(tmp_path: Path) -> None:
    bundle = Bundle.open(write(tmp_path))
    assert bundle.manifest.release_version == "1.2.3"
    assert bundle.manifest.security_epoch == 4
    assert bundle.meta["model"] == "demo"
    assert bytes(bundle.piece("model.onnx")) == b"onnx bytes"
    assert bundle.targets == ("npu-4t",)
    assert bytes(bundle.program("npu-4t", "model").constants) == b"constants"
    assert len(bundle.digest) == 96


def test_the_same_pieces_give_the_same_bytes(tmp_path: Path) -> None:
    first = write(tmp_path).read_bytes()
    reversed_pieces = dict(reversed(pieces().items()))
    assert write(tmp_path, reversed_pieces).read_bytes() == first


def test_every_piece_is_stored_and_aligned(tmp_path: Path) -> None:
    path = write(tmp_path)
    data = path.read_bytes()
    for name, content in pieces().items():
        assert data.index(content) % 128 == 0, name
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    write(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.elb"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = path.read_bytes()
    with pytest.raises(BundleError):
        write(tmp_path, {"../evil": b""})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.elb"]


def test_any_damaged_piece_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"onnx bytes")] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedPiece, match=r"model.onnx.*SHA-384.*fetch"):
        Bundle.open(path)


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_bundle_is_refused(tmp_path: Path, keep: float) -> None:
    path = write(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(BundleError):
        Bundle.open(path)


def test_a_program_of_another_build_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(ForeignPiece, match="made by build"):
        write(tmp_path, pieces() | {"npu-4t/model.npu": program(build=bytes(16))})


def test_a_json_piece_of_another_build_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(ForeignPiece, match=r"meta.json"):
        write(tmp_path, pieces() | {"meta.json": b'{"build_id": "00"}'})


def test_a_piece_that_the_manifest_does_not_list_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("extra.bin")
        entry.extra = b"\xb0\xe1" + (0).to_bytes(2, "little")
        archive.writestr(entry, b"x")
    with pytest.raises(BundleError):
        Bundle.open(path)


def test_another_target_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    bundle = Bundle.open(write(tmp_path))
    with pytest.raises(MissingPiece, match=r"npu-4t.*build it for npu-2t"):
        bundle.program("npu-2t", "model")


def test_a_program_stored_under_another_target_is_refused(tmp_path: Path) -> None:
    parts = pieces() | {"npu-2t/model.npu": program("npu-4t")}
    bundle = Bundle.open(write(tmp_path, parts))
    with pytest.raises(DamagedPiece, match="compiled for npu-4t"):
        bundle.program("npu-2t", "model")


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.elb"
    path.write_bytes(b"not a zip at all")
    with pytest.raises(ForeignBundle):
        Bundle.open(path)
