"""No telemetry message can carry a pixel, a stable identity or an exact time."""

from __future__ import annotations

import types
import typing
from dataclasses import fields

import numpy as np
import pytest
from pydantic import BaseModel

from contracts.device import DeviceTags
from contracts.statistics.drf1 import DriftReport
from contracts.wire import SegmentUpload

TELEMETRY = (SegmentUpload, DeviceTags)
FORBIDDEN_WORDS = (
    "pixel", "image", "frame_data", "rgb", "yuv", "thumbnail", "jpeg", "png", "face", "serial", "imei", "mac_address",
    "ip", "address", "user", "email", "device_id", "timestamp", "time", "latitude", "longitude",
)  # fmt: skip
ALLOWED = {
    "segment_id", "embedding_id", "model_version", "pseudonym", "hour", "tags", "frames", "height", "width", "channels",
    "codes", "score_mean", "score_max", "motion", "device_class", "driver", "region", "network", "scenario",
}  # fmt: skip
REPORT_FIELDS = {
    "pseudonym", "embedding_id", "day", "frames", "sessions", "clipped", "score_mean", "hard_segments", "tags", "mean",
    "variance", "projected_covariance", "histogram", "saturated",
}  # fmt: skip


def complaints(model: type[BaseModel]) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        if any(word == part for word in FORBIDDEN_WORDS for part in name.split("_")) or name in FORBIDDEN_WORDS:
            found.append(f"{model.__name__}.{name} says it carries something forbidden")
        kinds = (
            typing.get_args(field.annotation) if isinstance(field.annotation, types.UnionType) else (field.annotation,)
        )
        found += [
            f"{model.__name__}.{name} is of type {kind}, wide enough for pixels or an exact time"
            for kind in kinds
            if kind is bytes or (kind is float and "score" not in name and name != "motion")
        ]
    return found


@pytest.mark.parametrize("model", TELEMETRY)
def test_telemetry_fields_are_on_the_reviewed_list(model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= ALLOWED
    assert complaints(model) == []


def test_report_fields_are_on_the_reviewed_list() -> None:
    assert {field.name for field in fields(DriftReport)} == REPORT_FIELDS


def test_the_check_itself_catches_a_careless_field() -> None:
    class Careless(BaseModel):
        thumbnail: str
        captured_time: float
        raw: bytes

    assert len(complaints(Careless)) == 4


def test_a_segment_code_never_holds_more_than_a_quarter_bit_per_pixel() -> None:
    pixels = 32 * 32
    bits = 16 * 4
    assert bits / pixels <= 0.0625
    assert np.log2(16) == 4
