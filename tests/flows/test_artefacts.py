"""Stage artefacts: what the plots and sheets say is what the run found."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import numpy as np
import pytest

from contracts.wire.search import MOST_CANDIDATES
from flows.artefacts.contact_sheet import contact_sheet, pick
from flows.artefacts.front import FEWEST, MOST, Point, candidates, front_svg, fronts
from flows.artefacts.png import to_png
from flows.artefacts.record import search_record
from flows.artefacts.sheets import accuracy_report, accuracy_text, architecture_sheet, constraint_sheet, data_list
from flows.data.codec import write_lossless
from flows.data.corpus import Corpus, folder_corpus
from flows.run_folder import Json, RunFolder
from flows.search.table import BlockCost, OperatorTable
from flows.steps.artefacts import after_hard_set, told_search
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tracking import Tracker

NS = {"svg": "http://www.w3.org/2000/svg"}


def _name(depth: int, mid: int = 16) -> str:
    return Architecture(16, (Stage(depth, mid), Stage(1, 8), Stage(0, 8))).to_json()


def _row(name: str, psnr: float, latency: float) -> Json:
    return {"architecture": name, "psnr": psnr, "latency_ratio": latency}


@pytest.fixture
def searched() -> Json:
    rows = [
        _row(_name(depth, mid), 30 + depth + mid / 40, 0.7 + 0.1 * depth + mid / 200)
        for depth in (1, 2)
        for mid in (8, 16, 32, 48)
    ]
    rows += [_row(_name(3, mid), 30.0, 0.9 + mid / 100) for mid in (8, 16)]
    return {
        "evaluated": rows, "front": rows[:8], "chosen": rows[5]["architecture"], "inherited": rows[0]["architecture"],
        "searched_stages": [0], "space": 48,
    }  # fmt: skip


def test_png_decodes_to_the_same_pixels() -> None:
    image = np.random.default_rng(0).integers(0, 256, (37, 51, 3), dtype=np.uint8)
    with av.open(io.BytesIO(to_png(image)), format="png_pipe") as container:
        found = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.array_equal(found, image)
    assert to_png(image) == to_png(image)
    with pytest.raises(ValueError, match="uint8"):
        to_png(np.zeros((4, 4), np.uint8))


def test_layers_hold_what_nothing_beats() -> None:
    a, b, c, d = Point("a", 1, 1), Point("b", 2, 2), Point("c", 0.5, 1.5), Point("d", 1.5, 3)
    assert fronts([d, c, b, a]) == [[a, b], [c, d]]


@pytest.mark.parametrize("count", [1, 3, 5, 8, 40])
def test_five_to_eight_candidates_with_the_chosen_among_them(count: int) -> None:
    points = [Point(str(number), float(number), float(number)) for number in range(count)]
    chosen = str(count // 3)
    found = candidates(points, chosen)
    assert min(count, FEWEST) <= len(found) <= MOST
    assert chosen in {point.architecture for point in found}
    assert {"0", str(count - 1)} & {point.architecture for point in found}


def test_short_front_is_filled_from_the_next_layers() -> None:
    points = [Point("best", 9.0, 0.1), *(Point(str(n), float(n), 1.0 + n) for n in range(6))]
    assert len(candidates(points, "best")) == FEWEST


def test_plot_has_axes_with_units_limit_points_and_candidates(searched: Json) -> None:
    root = ElementTree.fromstring(front_svg(searched, 1.04))  # noqa: S314  # our own text
    texts = ["".join(node.itertext()) for node in root.iter(f"{{{NS['svg']}}}text")]
    assert "latency relative to production (x)" in texts
    assert "validation PSNR (dB)" in texts
    assert "limit 1.04x" in texts
    circles = root.findall(".//svg:circle", NS)
    marked = [circle for circle in circles if circle.get("class") == "candidate"]
    assert len(circles) - len(marked) == len(searched["evaluated"])
    assert FEWEST <= len(marked) <= MOST
    assert sum("chosen" in text for text in texts) == 1
    for circle in circles:
        assert 0 < float(circle.get("cx", -1)) < 760
        assert 0 < float(circle.get("cy", -1)) < 480


def test_plot_is_the_same_bytes_for_the_same_search(searched: Json) -> None:
    assert front_svg(searched, 1.04) == front_svg(json.loads(json.dumps(searched)), 1.04)
    with pytest.raises(ValueError, match="nothing to plot"):
        front_svg({**searched, "evaluated": []}, 1.04)


def test_one_judged_network_can_be_plotted(searched: Json) -> None:
    alone = {**searched, "evaluated": searched["evaluated"][:1], "chosen": searched["evaluated"][0]["architecture"]}
    assert 'class="candidate"' in front_svg(alone, 1.04)


def test_constraint_sheet_is_the_target_s_specification() -> None:
    sheet = constraint_sheet(("npu-4t",), ((72, 88),), 1.04, 1.08, {"npu-4t": "driver 1"})
    assert sheet["targets"]["npu-4t"]["sram_bytes"] == 4 << 20
    assert sheet["limits"] == {"latency_ratio": 1.04, "ddr_ratio": 1.08, "int8_drop_db": 0.15}
    json.dumps(sheet)


def test_architecture_sheet_predicts_with_the_table_it_shows(searched: Json) -> None:
    table = OperatorTable(
        tuple(BlockCost("npu-4t", "72x88", 16, mid, 3, float(mid), 100.0, 1000 + mid) for mid in (8, 16, 32, 48)), {}
    )
    sheet = architecture_sheet(searched, table, ((72, 88),), [searched["evaluated"][7]["architecture"]])
    chosen = sheet["networks"][0]
    assert chosen["architecture"] == sheet["chosen"]
    assert chosen["latency_us"] == {"npu-4t 72x88": 100.0 + 2 * 16.0 + 8.0}
    assert len(sheet["operator_table"]["rows"]) == 4
    assert [network["architecture"] for network in sheet["networks"]][-1] == sheet["production"]


def test_accuracy_report_prints_a_missed_limit_as_missed() -> None:
    row = {
        "condition": "hard",
        "float_psnr_rgb": 30.0,
        "int8_drop_db": 0.05,
        "gain": 0.4,
        "unit": "dB",
        "quality": "luma PSNR",
        "flicker": 1.0,
        "parent_flicker": 1.1,
    }
    report = accuracy_report({"a": row, "b": {**row, "int8_drop_db": 0.2}}, {"differs_by_lsb": 1, "other": 3})
    assert not report["ok"]
    assert report["worst_drop_db"] == 0.2
    assert report["export"] == {"differs_by_lsb": 1}
    text = accuracy_text(report)
    assert text.count("MISSED") == 1
    assert "0.200 dB (0.15)" in text
    assert "+0.40 dB luma PSNR" in text


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for seed, name in enumerate(("ann", "bob")):
        still = np.random.default_rng(seed).integers(0, 255, (1, 64, 96, 3), dtype=np.uint8)
        write_lossless(tmp_path / f"{name}.mp4", still.repeat(8, axis=0))
    return folder_corpus(tmp_path)


def _hard(clip: str = "ann") -> Json:
    stand_ins = [
        {
            "cluster": cluster, "clip": clip, "view": {"scale": 1, "stride": 1, "limit": 50, "crop": None},
            "degradation": {"gain": 0.5, "crf": 30.0}, "vectors": [], "distance": 0.1 * n, "reached": n,
        }
        for cluster in ("c0", "c1")
        for n in range(3)
    ]  # fmt: skip
    return {
        "stand_ins": stand_ins,
        "coverage_before": 0.1,
        "coverage_after": 0.9,
        "eps": 0.2,
    }


def test_data_list_names_hash_and_licence_of_every_clip(corpus: Corpus) -> None:
    found = data_list(corpus, _hard(), {"model.onnx": b"m"})
    assert {(row["id"], row["licence"], row["split"]) for row in found["clips"]} == {
        ("ann", "not stated", "train"), ("bob", "not stated", "held-out"),
    }  # fmt: skip
    assert all(len(row["sha256"]) == 64 for row in found["clips"])
    assert found["files"] == {"model.onnx": hashlib.sha256(b"m").hexdigest()}
    assert "vectors" not in json.dumps(found)


def test_contact_sheet_shows_clusters_in_turn_clean_beside_received(corpus: Corpus) -> None:
    assert [(one["cluster"], one["reached"]) for one in pick(_hard()["stand_ins"], 3)] == [
        ("c0", 2),
        ("c1", 2),
        ("c0", 1),
    ]
    picture, legend = contact_sheet(_hard()["stand_ins"], {clip.id: clip for clip in corpus.clips})
    assert [row["tile"] for row in legend] == [1, 2, 3, 4, 5, 6]
    assert picture.shape == (2 * 94 + 4, 3 * 244 + 4, 3)
    clean, received = picture[10:80, 10:110], picture[10:80, 130:230]
    assert clean.std() > 2 * received.std(), "coding has taken the noise away"
    with pytest.raises(ValueError, match="none of their clips"):
        contact_sheet(_hard("nobody")["stand_ins"], {})


@dataclass
class _Run:
    """As much of a run as the artefacts use."""

    folder: RunFolder
    corpus: Corpus
    key: str = "t"
    parent: Any = None
    findings: tuple[str, ...] = ("odd.mkv: used, 10-bit samples",)

    def __post_init__(self) -> None:
        self.parent = type("Parent", (), {"model": b"m", "quality": b"q", "observer": b"o"})


def test_artefacts_are_written_once_and_a_picture_that_fails_is_logged(
    corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = _Run(RunFolder(tmp_path / "run"), corpus)
    after_hard_set(run, _hard())  # type: ignore[arg-type]  # a twin
    before = (tmp_path / "run" / "contact_sheet.png").stat().st_mtime_ns
    after_hard_set(run, _hard())  # type: ignore[arg-type]  # a twin
    assert (tmp_path / "run" / "contact_sheet.png").stat().st_mtime_ns == before
    other = _Run(RunFolder(tmp_path / "other"), corpus)
    with caplog.at_level(logging.WARNING):
        after_hard_set(other, _hard("nobody"))  # type: ignore[arg-type]  # a twin
    assert "contact_sheet.png of run t is missing" in caplog.text
    assert other.folder.has("data_list.json")


@dataclass
class _Client:
    """MLflow's client, as far as uploading goes."""

    logged: list[str] = field(default_factory=list)

    def log_artifact(self, _run: str, path: str) -> None:
        self.logged.append(Path(path).name)

    def set_terminated(self, _run: str) -> None:
        """Nothing to end."""


def test_plots_and_reports_go_to_the_tracked_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("front.svg", "accuracy.md", "contact_sheet.png", "search.json", ".half.svg", "finetune.pt"):
        (tmp_path / name).write_bytes(b"x")
    tracker, client = Tracker("t", "http://127.0.0.1:1"), _Client()
    monkeypatch.setattr(tracker, "_connected", lambda: client)
    for name in ("_register", "_send_parameters"):
        monkeypatch.setattr(tracker, name, lambda _client: None)
    tracker.open(RunFolder(tmp_path), {})
    tracker.finish()
    assert client.logged == ["accuracy.md", "contact_sheet.png", "front.svg", "search.json"]


def test_the_record_tells_every_network_once_with_its_size_and_the_choice(searched: Json) -> None:
    told = search_record(searched, 1.04)
    assert told.judged == len(told.candidates) == len(searched["evaluated"])
    (chosen,) = (one for one in told.candidates if one.chosen)
    assert chosen.name == "16: 2x16 1x8 0"
    assert chosen.weights == Architecture.from_json(searched["chosen"]).parameters()
    assert [one.name for one in told.candidates if one.production] == ["16: 1x8 1x8 0"]
    assert [one.latency_ratio for one in told.candidates] == sorted(one.latency_ratio for one in told.candidates)
    best = max(told.candidates, key=lambda one: one.quality_db)
    assert best.front
    assert not min(told.candidates, key=lambda one: one.quality_db).front


def test_networks_that_differ_in_a_stage_without_blocks_only_are_one(searched: Json) -> None:
    twin = Architecture(16, (Stage(2, 16), Stage(1, 8), Stage(0, 32))).to_json()
    searched["evaluated"].append(_row(twin, 32.4, 0.98))
    assert len(search_record(searched, 1.04).candidates) == len(searched["evaluated"]) - 1


def test_a_long_search_is_cut_to_its_best_and_keeps_the_choice(searched: Json) -> None:
    searched["evaluated"] += [_row(_name(3, mid), 20 - mid / 100, 2 + mid / 100) for mid in range(1, 256)]
    searched["evaluated"] += [_row(_name(4, mid), 20 - mid / 100, 5 + mid / 100) for mid in range(1, 256)]
    told = search_record(searched, 1.04)
    assert len(told.candidates) == MOST_CANDIDATES
    assert told.judged > MOST_CANDIDATES
    assert sum(one.chosen for one in told.candidates) == 1
    names = {one.name for one in told.candidates}
    assert {"16: 3x1 1x8 0", "16: 4x1 1x8 0"} < names
    assert not {"16: 3x255 1x8 0", "16: 4x255 1x8 0"} & names
    assert len(told.model_dump_json()) < 60_000


def test_a_search_whose_choice_was_not_judged_is_no_record_and_stops_no_run(
    searched: Json, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    searched["chosen"] = _name(9)
    with pytest.raises(ValueError, match="exactly one"):
        search_record(searched, 1.04)
    run: Any = type("Run", (), {"key": "k", "settings": type("Settings", (), {"latency_limit": 1.04})})
    with caplog.at_level(logging.ERROR):
        assert told_search(run, searched) is None
    assert "tells the platform nothing" in caplog.text
