"""From an upload to a verdict, on a real database, the real compiler and emulated devices."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from contracts.bundle import Bundle
from services.builds import held
from services.builds.limits import GATE, WORK
from services.kit.database import transaction
from services.kit.storage import store
from tests.builds import support
from tests.builds.conftest import Studio
from tests.support.models import vsr_qdq


@pytest.fixture(scope="module")
def passed(studio: Studio) -> dict[str, object]:
    """The first build, judged without production."""
    return studio.build({"float_psnr": {"normal": 100.0, "hard-night": 100.0}})


def test_the_first_good_build_passes_on_absolute_checks(passed: dict[str, object]) -> None:
    assert passed["state"] == "passed", passed["message"]
    assert "all" in str(passed["message"])


def test_the_bundle_is_served_as_built(
    studio: Studio, passed: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    answer = studio.client.get(f"/builds/v1/builds/{passed['id']}/bundle", token=studio.token)
    assert answer.status_code == 200
    assert hashlib.sha384(answer.content).hexdigest() == passed["digest"]
    assert answer.headers["etag"] == f'"{passed["digest"]}"'
    path = tmp_path_factory.mktemp("bundle") / "served.elb"
    path.write_bytes(answer.content)
    assert Bundle.open(path).targets == ("npu-4t",)


def test_the_evidence_names_every_input_version_and_raw_row(studio: Studio, passed: dict[str, object]) -> None:
    answer = studio.client.get(f"/builds/v1/builds/{passed['id']}/evidence", token=studio.token)
    document = json.loads(answer.content)
    assert document["build"]["inputs"]["model"]["sha256"] == hashlib.sha256(studio.model).hexdigest()
    assert {"python", "numpy", "onnxruntime", "onnx"} <= set(document["versions"])
    assert {entry["name"] for entry in document["evaluation_sets"]} == {"normal", "hard-night"}
    rows = document["candidate"]
    assert {(row["program"], row["condition"]) for row in rows} == {
        ("model", "normal"),
        ("model", "hard"),
        ("model-little", "normal"),
        ("model-little", "hard"),
        ("quality", "normal"),
        ("quality", "hard"),
    }
    assert all(len(row["latency_ms"]) == row["frames"] and row["kernels"] for row in rows)
    assert document["labs"]["npu-4t"]["device_class"] == "npu-4t"
    assert document["production"] is None
    assert document["verdict"]["passed"] is True


def test_the_little_kernels_are_judged_by_a_few_frames_of_each_set(studio: Studio, passed: dict[str, object]) -> None:
    answer = studio.client.get(f"/builds/v1/builds/{passed['id']}/evidence", token=studio.token)
    rows = [row for row in json.loads(answer.content)["candidate"] if row["program"] == "model-little"]
    assert rows
    for row in rows:
        assert row["frames"] == WORK.oracle_frames
        assert row["oracle_values"] > 0
        assert (row["oracle_largest"], row["psnr_db"]) == (0, None)
    names = {check["id"].split("@")[0] for check in passed["verdict"]["checks"]}  # type: ignore[index]
    assert {"oracle.largest.model-little", "sram.model-little"} <= names


def test_a_build_may_ask_for_no_little_kernels(studio: Studio) -> None:
    build = studio.build({"release_version": "1.8", "little": "none"})
    assert build["state"] == "passed", build["message"]
    assert not [check["id"] for check in build["verdict"]["checks"] if "little" in check["id"]]
    assert studio.send({"little": "half"}).status_code == 422


def test_the_same_model_again_equals_production(studio: Studio, passed: dict[str, object]) -> None:
    marked = studio.client.post(f"/builds/v1/builds/{passed['id']}/production", token=studio.token)
    assert marked.json()["production"] is True
    again = studio.build({"release_version": "1.1"})
    assert again["state"] == "passed", again["message"]
    names = {check["id"].split("@")[0] for check in again["verdict"]["checks"]}
    assert {"latency.p99.model", "ddr.model", "quality.normal", "quality.hard", "flicker"} <= names


def test_a_broken_calibration_is_blocked_and_named(studio: Studio, passed: dict[str, object]) -> None:
    broken = support.with_broken_calibration(studio.model)
    build = studio.build({"release_version": "1.2", "float_psnr": {"normal": 100.0}}, model=broken)
    assert build["state"] == "blocked"
    failed = [check for check in build["verdict"]["checks"] if not check["ok"]]
    assert "quantisation.drop@npu-4t/48x64/normal" in {check["id"] for check in failed}
    assert "quality.normal@npu-4t/48x64/normal" in {check["id"] for check in failed}
    assert any("calibration" in check["detail"] for check in failed)
    assert "the gate blocked this build" in build["message"]
    assert build["remedy"]


def test_a_slower_model_is_blocked_by_its_latency(studio: Studio, passed: dict[str, object]) -> None:
    build = studio.build({"release_version": "1.3"}, model=vsr_qdq(channels=32, mid=32, blocks=6))
    assert build["state"] == "blocked"
    assert any(reason.startswith("latency.p99.model@npu-4t/48x64") for reason in build["verdict"]["reasons"])


def test_an_unsupported_operator_is_refused_with_node_reason_and_remedy(studio: Studio) -> None:
    build = studio.build(model=support.with_unsupported_operator(studio.model))
    assert build["state"] == "refused"
    assert "Erf" in build["message"]
    assert "strange_erf" in build["message"]
    assert build["remedy"]
    for part in ("bundle", "evidence"):
        answer = studio.client.get(f"/builds/v1/builds/{build['id']}/{part}", token=studio.token)
        assert answer.status_code == 409


def test_a_profile_that_no_set_fits_is_measured_all_the_same(studio: Studio) -> None:
    build = studio.build({"release_version": "1.4", "profiles": [[48, 64], [64, 96]], "targets": ["npu-4t", "npu-2t"]})
    assert build["state"] == "passed", build["message"]
    places = {check["id"].split("@")[1] for check in build["verdict"]["checks"] if check["id"].startswith("sram.model")}
    assert places == {
        f"{target}/{where}"
        for target in ("npu-4t", "npu-2t")
        for where in ("48x64/normal", "48x64/hard-night", "64x96")
    }


def test_without_any_set_nothing_passes(studio: Studio) -> None:
    build = studio.build({"profiles": [[64, 96]], "release_version": "1.5"})
    assert build["state"] == "blocked"
    assert build["verdict"]["reasons"][0].startswith("evidence.normal@npu-4t")


def test_a_blocked_build_cannot_become_production(studio: Studio) -> None:
    build = studio.build({"profiles": [[64, 96]], "release_version": "1.6"})
    answer = studio.client.post(f"/builds/v1/builds/{build['id']}/production", token=studio.token)
    assert answer.status_code == 409
    assert answer.json()["type"] == "/problems/not-passed"


def test_only_one_build_is_production(studio: Studio, passed: dict[str, object]) -> None:
    again = studio.build({"release_version": "1.7"})
    studio.client.post(f"/builds/v1/builds/{again['id']}/production", token=studio.token)
    listed = studio.client.get("/builds/v1/builds?limit=200", token=studio.token).json()["items"]
    assert [build["id"] for build in listed if build["production"]] == [again["id"]]


def test_a_measurement_is_made_once(studio: Studio, passed: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    from services.builds import measuring, work
    from services.builds.models import BuildRow
    from services.kit.database import transaction

    with transaction() as session:
        row = session.get(BuildRow, passed["id"])
        assert row is not None
        row.state, row.finished = "gating", None

    def never(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(measuring, "measure", never)
    work.gate_step(str(passed["id"]))
    assert studio.get(str(passed["id"]))["state"] == "passed"


def test_inputs_and_bundle_lie_in_the_store_under_their_hashes(studio: Studio, passed: dict[str, object]) -> None:
    assert store().get(f"builds/inputs/{hashlib.sha256(studio.model).hexdigest()}") == studio.model
    assert store().size(f"builds/bundles/{passed['digest']}.elb") == passed["size_bytes"]


def test_the_thresholds_of_the_gate_have_a_history_that_grows_with_a_change_only(
    studio: Studio, passed: dict[str, object]
) -> None:
    def told() -> dict[str, Any]:
        (gate,) = studio.client.get("/builds/v1/held-settings", token=studio.token).json()["sections"]
        return dict(gate)

    (first,) = told()["history"]
    assert first["by"] == f"build {passed['id']}"
    assert first["values"]["quantisation_drop_db"] == GATE.quantisation_drop_db
    assert {item["name"] for item in told()["items"]} == set(first["values"])
    with transaction() as session:
        held.note(session, 7.0, "b-same")
        held.note(session, 8.0, "b-other", replace(GATE, quantisation_drop_db=0.1))
        held.note(session, 9.0, "b-again", replace(GATE, quantisation_drop_db=0.1))
    assert [entry["by"] for entry in told()["history"]] == ["build b-other", first["by"]]
