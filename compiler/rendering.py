"""Tables for the terminal, from the same values that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from compiler.report import CompileReport


def render_report(console: Console, report: CompileReport) -> None:
    """The result of a compilation."""
    console.print(f"[bold]{report.path}[/bold]  {report.size:,} bytes  release {report.release_version}")
    console.print(f"build {report.build_id}  sha384 {report.digest[:16]}…")
    table = _table("program", "profile", "operators", "kernels", "ideal ms", "u85-like ms", "SRAM", "naive", "DDR")
    for program in report.programs:
        for profile in program.profiles:
            table.add_row(
                f"{program.target}/{program.program}",
                profile.name,
                str(program.operators_before),
                str(program.kernels),
                f"{profile.latency_ms['ideal']:.3f}",
                f"{profile.latency_ms['u85-like']:.3f}",
                _bytes(profile.sram_peak),
                _bytes(profile.naive_sram),
                _bytes(profile.ddr_bytes),
            )
    console.print(table)
    for program in report.programs:
        head = f"{program.target}/{program.program}"
        _reasons(console, head, (f"{e.producer} → {e.consumer} stays unfused: {e.reason}" for e in program.unfused))
        for profile in program.profiles:
            _reasons(console, f"{head} {profile.name}", profile.reasons)


def render_inspection(console: Console, facts: dict[str, Any]) -> None:  # Any: the JSON form
    """What a file holds."""
    console.print(f"[bold]{facts['file']}[/bold]")
    if "digest" in facts:
        console.print(f"release {facts['release_version']}  epoch {facts['security_epoch']}  {facts['size']:,} bytes")
        console.print(f"build {facts['build_id']}  sha384 {facts['digest'][:16]}…")
        pieces = _table("piece", "bytes")
        for name, length in facts["pieces"].items():
            pieces.add_row(name, f"{length:,}")
        console.print(pieces)
    for program in facts["programs"]:
        for profile in program["profiles"]:
            _render_profile(console, program, profile)
        edges = (f"{e['producer']} → {e['consumer']} stays unfused: {e['reason']}" for e in program["unfused"])
        _reasons(console, f"{program['target']}/{program['program']}", edges)


def _render_profile(console: Console, program: dict[str, Any], profile: dict[str, Any]) -> None:  # Any: JSON
    latency = "  ".join(f"{model} {value:.3f} ms" for model, value in profile["latency_ms"].items())
    console.print(f"\n[bold]{program['target']}/{program['program']} {profile['profile']}[/bold]  {latency}")
    console.print(
        f"{profile['launches']} launches, {profile['macs'] / 1e9:.3f} GMAC, DDR {_bytes(profile['ddr_bytes'])}, "
        f"SRAM {_bytes(profile['sram_peak'])} of {_bytes(profile['sram_bytes'])}"
    )
    models = list(profile["latency_ms"])
    table = _table("kernel", *(f"{model} µs" for model in models), "MMAC", "DDR", "bound by")
    for row in profile["kernels"]:
        times = [f"{row['microseconds'][model]:.1f}" for model in models]
        table.add_row(row["kernel"], *times, f"{row['macs'] / 1e6:.1f}", _bytes(row["ddr_bytes"]), row["bound_by"])
    console.print(table)
    _reasons(console, profile["profile"], profile["reasons"])


def _reasons(console: Console, head: str, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(f"  [yellow]{head}[/yellow]: {line}")


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    return table


def _bytes(size: int) -> str:
    return f"{size / 2**20:.2f}M" if size >= 2**20 else f"{size / 2**10:.1f}K"
