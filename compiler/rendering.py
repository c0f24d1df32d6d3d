"""Tables for the terminal, from the same values that ``--json`` prints. The five answers always come first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from compiler.measures.answers import view_answers
from compiler.measures.texts import milliseconds, share, size
from compiler.measures.views import FileView, ProfileView, ProgramView
from compiler.perf import Comparison, Row
from compiler.report import CompileReport

_MOST_ROWS = 5


def render_report(console: Console, report: CompileReport) -> None:
    """The result of a compilation."""
    for program in report.programs:
        for profile in program.profiles:
            _answers(console, _where(program.target, program.program, profile.name, program.core), profile.answers)
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
                size(profile.sram_peak),
                size(profile.naive_sram),
                size(profile.ddr_bytes),
            )
    console.print(table)
    for program in report.programs:
        head = f"{program.target}/{program.program}"
        _lines(console, head, (f"{e.producer} → {e.consumer} stays unfused: {e.reason}" for e in program.unfused))
        _lines(console, head, [program.coding.note] if program.coding.note else [])
        for profile in program.profiles:
            _lines(console, f"{head} {profile.name}", (*profile.reasons, *profile.notes))
            if profile.effort != "fast":
                peak = profile.sram_peak, profile.sram_bound, profile.sram_gap
                _lines(console, f"{head} {profile.name}", (_searched(profile.effort, *peak, profile.planner),))
    _lines(console, "bundle", report.notes)
    console.print(f"\n[bold]{escape(report.path)}[/bold]  {report.size:,} bytes  release {report.release_version}")
    if report.little_bytes:
        told = f"of them {report.little_bytes:,} for the little core ({share(report.little_bytes / report.size)})"
        console.print(f"{told}; --little none leaves it out", highlight=False)
    console.print(f"build {report.build_id}  sha384 {report.digest[:16]}…")


def render_inspection(console: Console, view: FileView) -> None:
    """What a file holds."""
    console.print(f"[bold]{escape(view.file)}[/bold]  {view.size:,} bytes")
    if view.release:
        release = view.release
        console.print(f"release {release['release_version']}  epoch {release['security_epoch']}")
        console.print(f"build {release['build_id']}  sha384 {release['digest'][:16]}…")
    for program in view.programs:
        for profile in program.profiles:
            _render_profile(console, program, profile)
        edges = (f"{e['producer']} → {e['consumer']} stays unfused: {e['reason']}" for e in program.unfused)
        _lines(console, f"{program.target}/{program.name}", edges)
        _lines(console, f"{program.target}/{program.name}", [note] if (note := program.constants_note) else [])
    if view.pieces:
        pieces = _table("piece", "bytes")
        for name, length in view.pieces.items():
            pieces.add_row(name, f"{length:,}")
        console.print(pieces)


def _render_profile(console: Console, program: ProgramView, view: ProfileView) -> None:
    console.print()
    where = _where(program.target, program.name, view.profile.name, program.core)
    _answers(console, where, view_answers(program, view))
    frames = [frame.usage for frame in view.frames]
    heads = (f"{frame.array_model} µs" for frame in frames)
    table = _table("kernel", *heads, "waits", "stripes", "MMAC", "DDR", "hidden", "limited by")
    for index, kernel in enumerate(frames[-1].kernels):
        table.add_row(
            kernel.name,
            *(f"{frame.kernels[index].total_ns / 1000:,.1f}" for frame in frames),
            milliseconds(kernel.wait_ns),
            str(kernel.stripes),
            f"{kernel.macs / 1e6:,.1f}",
            size(kernel.ddr_bytes),
            "" if kernel.hidden_share is None else share(kernel.hidden_share),
            kernel.bound_by,
        )
    console.print(table)
    _lines(console, view.profile.name, (*view.plan.get("reasons", ()), *view.plan.get("notes", ())))
    if (effort := view.plan.get("effort", "fast")) != "fast":
        facts = view.profile.sram_peak, int(view.plan["lower_bound"]), float(view.plan["gap"])
        _lines(
            console, view.profile.name, (_searched(effort, *facts, f"{view.plan['planner']}: {view.plan['proof']}"),)
        )


def render_comparison(console: Console, comparison: Comparison) -> None:
    """What changed, the largest changes of kernels, and what that means."""
    rows = list(_once(comparison.rows))
    table = _table("program", "measure", "baseline", "current", "change", words=2)
    for row in (row for row in rows if not row.kernel):
        table.add_row(
            str(row.key), row.measure, _amount(row.baseline), _amount(row.current), _change(row.growth_percent)
        )
    console.print(table)
    changed = sorted(
        (row for row in rows if row.kernel and row.measure != "sram_bytes" and row.baseline != row.current),
        key=lambda row: -abs((row.current or 0) - (row.baseline or 0)),
    )
    if changed:
        kernels = _table("kernel", "program", "measure", "baseline", "current", "change", words=3)
        for row in changed[:_MOST_ROWS]:
            cells = _amount(row.baseline), _amount(row.current), _change(row.growth_percent)
            kernels.add_row(row.kernel, str(row.key), row.measure, *cells)
        console.print(kernels)
        if len(changed) > _MOST_ROWS:
            console.print(f"and {len(changed) - _MOST_ROWS} smaller changes of kernels")
    for note in comparison.notes:
        console.print(escape(note), soft_wrap=True)
    for entry in comparison.regressions:
        console.print(f"[red]regression[/red] {escape(str(entry))}", soft_wrap=True)
    if comparison.ok:
        console.print("[green]no regression[/green]")


def _once(rows: Iterable[Row]) -> Iterator[Row]:
    """Traffic and memory are the same under every array model: shown once."""
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        fact = (row.key[:3], row.kernel, row.measure, row.baseline, row.current)
        if fact not in seen:
            seen.add(fact)
            yield row


def _searched(effort: str, peak: int, bound: int, gap: float, planner: str) -> str:
    return f"memory, {effort} effort: peak {peak:,} bytes, lower bound {bound:,}, gap {gap:.2%}; {planner}"


def _where(target: str, program: str, profile: str, core: str) -> str:
    return f"{target}/{program} {profile}" + (" on the little core" if core == "little" else "")


def _answers(console: Console, where: str, lines: Sequence[tuple[str, str]]) -> None:
    console.print(f"[bold]{escape(where)}[/bold]")
    for question, answer in lines:
        console.print(f"  [bold]{question:>11}[/bold]  {escape(answer)}", soft_wrap=True)


def _lines(console: Console, head: str, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(f"  [yellow]{escape(head)}[/yellow]: {escape(line)}", soft_wrap=True)


def _table(*columns: str, words: int = 1) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < words else "right", overflow="fold")
    return table


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.10g}"


def _change(percent: float | None) -> str:
    return "" if percent is None else f"{percent:+.2f} %"
