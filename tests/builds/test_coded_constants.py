"""A build with coded constants: smaller, judged on the device like any other, with figures in gate and report."""

from __future__ import annotations

import pytest

from flows.model_store import SEEDS
from services.builds.limits import GATE
from tests.builds import support
from tests.builds.conftest import Studio


def test_a_build_may_ask_for_coded_constants_and_is_told_what_they_give(studio: Studio) -> None:
    model = (SEEDS / "v1.onnx").read_bytes()
    asked = {"evaluation_sets": [studio.add_set(support.model_set(model, "of-the-seed"))], "little": "none"}
    builds = {
        choice: studio.build({**asked, "release_version": f"1.9-{choice}", "entropy": choice}, model=model)
        for choice in ("off", "auto")
    }
    programs, checks = {}, {}
    for choice, build in builds.items():
        assert build["state"] == "passed", build["message"]
        told = studio.client.get(f"/builds/v1/builds/{build['id']}/report", token=studio.token).json()
        programs[choice] = {one["program"]: one for one in told["programs"]}
        checks[choice] = [check for check in build["verdict"]["checks"] if check["id"].startswith("load.")]
    assert builds["auto"]["size_bytes"] < builds["off"]["size_bytes"]
    coded = programs["auto"]["model"]
    assert coded["constants_stored"] < coded["constants_bytes"] == programs["off"]["model"]["constants_bytes"]
    assert (programs["off"]["model"]["constants_note"], checks["off"]) == ("", [])
    (check,) = checks["auto"]
    assert (check["id"], check["ok"], check["limit"]) == ("load.decode.model@npu-4t", True, GATE.decode_ms)
    assert check["value"] == pytest.approx(coded["decode_ms"], abs=1e-6)
    assert check["detail"] == coded["constants_note"] != ""
    assert "less than 3%" in programs["auto"]["quality"]["constants_note"]
    assert studio.send({"entropy": "zip"}).status_code == 422
