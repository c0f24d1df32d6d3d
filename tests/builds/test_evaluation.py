"""Evaluation sets are checked before they are unpacked."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from services.builds.evaluation import MalformedSet, parse
from services.builds.limits import UploadLimits
from tests.builds.support import evaluation_npz


def test_a_good_set_is_read() -> None:
    frames = parse(evaluation_npz())
    assert (frames.name, frames.condition, frames.profile) == ("normal", "normal", "48x64")
    assert frames.hr.shape == (4, 96, 128, 3)


def test_the_condition_defaults_to_the_name() -> None:
    assert parse(evaluation_npz("hard", condition=None)).condition == "hard"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"lr": None}, "lacks lr"),
        ({"hr": np.zeros((4, 48, 64, 3), np.uint8)}, r"must be \(4, 96, 128, 3\)"),
        ({"lr": np.zeros((4, 48, 64, 3), np.float32)}, "must be u8"),
        ({"clip": np.zeros(3, np.int64)}, "4 integers"),
        ({"clip": np.zeros(4, np.float64)}, "4 integers"),
        ({"condition": np.array("rainy")}, "normal, hard"),
        ({"name": np.array("../etc")}, "plain word"),
        ({"name": np.array(["a", "b"])}, "one short text"),
        ({"lr": np.array([{"a": 1}], dtype=object)}, "not a plain array"),
    ],
)
def test_a_wrong_member_is_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(MalformedSet, match=complaint):
        parse(evaluation_npz(**changes))


@pytest.mark.parametrize("cut", [0, 10, 300, 2_000])
def test_a_truncated_file_is_refused(cut: int) -> None:
    with pytest.raises(MalformedSet, match="not a readable npz"):
        parse(evaluation_npz()[:cut])


def test_a_small_file_that_unpacks_large_is_refused_before_unpacking() -> None:
    with pytest.raises(MalformedSet, match="unpacks to"):
        parse(evaluation_npz(), UploadLimits(evaluation_bytes=10_000))


def test_a_header_that_promises_more_than_the_member_holds_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(evaluation_npz())) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "lr.npy":
                data = data.replace(b"(4, 48, 64, 3)", b"(9999999999, 48, 64, 3)")[: len(data)]
            target.writestr(name, data)
    with pytest.raises(MalformedSet, match=r"lr\.npy"):
        parse(buffer.getvalue())
