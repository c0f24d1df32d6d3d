"""What the API tells of a bundle is what the compiler reads back from the file, and only once it exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.inspection import inspect_file
from services.builds import reports
from services.kit.storage import store
from tests.builds.conftest import Studio


@pytest.fixture(scope="module")
def built(studio: Studio) -> dict[str, object]:
    """A build that passed."""
    return studio.build()


def test_the_report_says_what_inspecting_the_bundle_says(
    studio: Studio, built: dict[str, object], tmp_path: Path
) -> None:
    told = studio.client.get(f"/builds/v1/builds/{built['id']}/report", token=studio.token).json()
    file = tmp_path / "release.elb"
    file.write_bytes(studio.client.get(f"/builds/v1/builds/{built['id']}/bundle", token=studio.token).content)
    real = inspect_file(file)
    assert (told["build_id"], told["digest"], told["size"]) == (built["id"], real["digest"], real["size"])
    assert told["pieces"] == real["pieces"]
    numbers = []
    for program, known in zip(told["programs"], real["programs"], strict=True):  # type: ignore[call-overload]
        assert [one["name"] for one in program["placement"]] == [one["name"] for one in known["placement"]]
        for profile, expected in zip(program["profiles"], known["profiles"], strict=True):
            numbers.append(profile["number"])
            for name in ("profile", "macs", "ddr_bytes", "sram_peak", "sram_bytes", "launches", "latency_ms"):
                assert profile[name] == expected[name], name
    assert numbers == list(range(len(numbers)))


def test_every_profile_has_its_kernels_memory_map_and_timeline(studio: Studio, built: dict[str, object]) -> None:
    base = f"/builds/v1/builds/{built['id']}/report"
    summary = studio.client.get(base, token=studio.token).json()
    flat = [(program, one) for program in summary["programs"] for one in program["profiles"]]
    for program, one in flat:
        frame = studio.client.get(f"{base}/profiles/{one['number']}", token=studio.token).json()
        place = (frame["target"], frame["core"], frame["program"], frame["profile"])
        assert place == (program["target"], program["core"], program["program"], one["profile"])
        assert abs(frame["frame_ns"] / 1e6 - one["latency_ms"][frame["array_model"]]) < 1e-5
        top = max(entry["offset"] + entry["size"] for entry in frame["ranges"] if entry["space"] == "SRAM")
        assert top <= one["sram_peak"] <= one["sram_bytes"]
        assert {lane["queue"] for lane in frame["lanes"]} == {"compute", "dma"}
        for lane in frame["lanes"]:
            assert lane["spans"] == sorted(lane["spans"])
            assert all(0 <= start <= stop <= frame["frame_ns"] * 1.001 for start, stop in lane["spans"])
    beyond = studio.client.get(f"{base}/profiles/{len(flat)}", token=studio.token)
    assert beyond.status_code == 404
    assert beyond.json()["type"] == "/problems/no-such-profile"
    assert studio.client.get(f"{base}/profiles/-1", token=studio.token).status_code == 422


def test_the_summary_is_read_from_the_bundle_once(
    studio: Studio, built: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/builds/v1/builds/{built['id']}/report"
    first = studio.client.get(path, token=studio.token).json()
    assert store().exists(f"builds/reports/{built['digest']}.v1.json")
    monkeypatch.setattr(reports, "view_file", None)
    assert studio.client.get(path, token=studio.token).json() == first


def test_a_build_without_a_bundle_and_one_that_nobody_sent_have_none(studio: Studio) -> None:
    waiting = studio.send({"name": "waits"}).json()["id"]
    for path in ("report", "report/profiles/0"):
        assert studio.client.get(f"/builds/v1/builds/{waiting}/{path}", token=studio.token).status_code == 409
        assert studio.client.get(f"/builds/v1/builds/b-none/{path}", token=studio.token).status_code == 404
        assert studio.client.get(f"/builds/v1/builds/{waiting}/{path}").status_code == 401
