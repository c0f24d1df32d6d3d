"""The stage artefacts of a run as JSON: constraint sheet, data list, architecture with its table, accuracy report.

Pure: what goes in are results of steps; nothing is measured here, so a sheet can never differ from the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from contracts.npu import load_spec
from flows.data.corpus import Corpus
from flows.run_folder import Json
from flows.search.table import OperatorTable
from flows.tasks.task import Task
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.task import VSR

DROP_LIMIT_DB = 0.15
"""Largest loss by INT8 that this project promises, on every held-out condition."""


def constraint_sheet(
    targets: Sequence[str], profiles: Sequence[tuple[int, int]], latency_limit: float, ddr_limit: float, facts: Json
) -> Json:
    """What the hardware allows: each target's specification, the frame sizes, and the limits of the search."""
    return {
        "targets": {name: asdict(load_spec(name)) for name in targets},
        "profiles": [{"rows": rows, "columns": columns} for rows, columns in profiles],
        "limits": {"latency_ratio": latency_limit, "ddr_ratio": ddr_limit, "int8_drop_db": DROP_LIMIT_DB},
        "measured_with": facts,
        "units": {"sram_bytes": "byte", "peak_macs_per_ns": "MAC/ns", "ddr_bytes_per_ns": "byte/ns", "launch_us": "us"},
    }


def data_list(corpus: Corpus, hard: Json, files: dict[str, bytes], findings: Sequence[str] = ()) -> Json:
    """Every clip with hash, licence and side; every condition that was trained under; the run's own files by hash;
    what was noted or left out of the corpus and why.
    """
    stand_ins = hard["stand_ins"]
    return {
        "corpus_sha256": corpus.digest(),
        "clips": json.loads(corpus.manifest())["clips"],
        "noted_or_left_out": list(findings),
        "conditions": conditions_of_stand_ins(hard["stand_ins"]),
        "stand_ins": {
            "count": len(stand_ins),
            "clips": sorted({one["clip"] for one in stand_ins}),
            "sha256": hashlib.sha256(json.dumps(stand_ins, sort_keys=True).encode()).hexdigest(),
        },
        "coverage": {"before": hard["coverage_before"], "after": hard["coverage_after"], "eps": hard["eps"]},
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }


def conditions_of_stand_ins(stand_ins: Sequence[Json]) -> list[Json]:
    """Every condition once, with the number of its stand-ins, most first."""
    counted: dict[str, int] = {}
    for one in stand_ins:
        name = json.dumps(one["degradation"], sort_keys=True)
        counted[name] = counted.get(name, 0) + 1
    return [
        {**json.loads(name), "stand_ins": count} for name, count in sorted(counted.items(), key=lambda row: -row[1])
    ]


def architecture_sheet(
    searched: Json,
    table: OperatorTable,
    profiles: Sequence[tuple[int, int]],
    candidates: Sequence[str],
    task: Task = VSR,
) -> Json:
    """The chosen network and the other candidates, each with size, work and predicted time, and the table used."""
    production = searched["inherited"]
    names = list(dict.fromkeys((searched["chosen"], *candidates, production)))
    return {
        "chosen": json.loads(searched["chosen"]),
        "production": json.loads(production),
        "searched_stages": searched["searched_stages"],
        "networks": [_network(name, table, profiles, task) for name in names],
        "operator_table": json.loads(table.to_json()),
    }


def accuracy_report(proved: Json, quantised: Json, pruning: Json | None = None) -> Json:
    """Float, INT8 and production on held-out clips, with the limit that each row keeps or misses; what pruning cost and
    recovery won back where the run pruned its network.
    """
    rows = {
        name: {**row, "limit_db": DROP_LIMIT_DB, "ok": row["int8_drop_db"] <= DROP_LIMIT_DB}
        for name, row in sorted(proved.items())
    }
    return {
        "rows": rows,
        "ok": all(row["ok"] for row in rows.values()),
        "worst_drop_db": max((row["int8_drop_db"] for row in rows.values()), default=None),
        "export": {
            name: quantised[name] for name in ("differs_by_lsb", "differing_share", "bytes") if name in quantised
        },
        "units": "int8_drop_db: dB in RGB; gain: quality over production, in the row's unit",
        **({"pruning": pruning} if pruning else {}),
    }


def accuracy_text(report: Json) -> str:
    """The report as Markdown."""
    lines = [
        "# Accuracy on held-out clips",
        "",
        "| clips | condition | float RGB | INT8 drop (limit) | gain over production | flicker, before | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in report["rows"].items():
        lines.append(
            f"| {name} | {row['condition']} | {row['float_psnr_rgb']:.2f} dB | {row['int8_drop_db']:.3f} dB "
            f"({row['limit_db']:g}) | {row['gain']:+.2f} {row['unit']} {row['quality']} | "
            f"{row['flicker']:.3f}, {row['parent_flicker']:.3f} | {'yes' if row['ok'] else 'MISSED'} |"
        )
    return "\n".join([*lines, ""])


def _network(architecture: str, table: OperatorTable, profiles: Sequence[tuple[int, int]], task: Task) -> Json:
    net = Architecture.from_json(architecture)
    pairs = sorted({(row.target, row.profile) for row in table.rows})
    return {
        "architecture": json.loads(architecture),
        "parameters": task.parameters(net),
        "macs": {f"{rows}x{columns}": task.macs(net, rows, columns) for rows, columns in profiles},
        "latency_us": {f"{target} {size}": table.latency_us(net, target, size) for target, size in pairs},
        "ddr_bytes": {f"{target} {size}": table.ddr_bytes(net, target, size) for target, size in pairs},
    }
