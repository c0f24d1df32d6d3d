"""The live terminal view: where the loop stands, the fleet, drift, builds and rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.observe import Json, Sight

PHASES = (
    "platform", "seed build", "recordings", "fleet joins", "healthy days", "bad days", "drift alarm", "retrain",
    "gate", "rollout", "act 2: broken candidate", "act 2: misbehaving candidate", "report",
)  # fmt: skip


@dataclass
class Board:
    """What the view shows besides the sight."""

    pace: str = ""
    phase: str = PHASES[0]
    detail: str = ""
    share: float | None = None
    seconds: float = 0.0
    limit_s: float = 900.0
    sim: str = ""
    names: dict[str, str] = field(default_factory=dict)


class View:
    """Draws a board on a terminal, or prints a line per change where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None
        self._said = ""

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, board: Board, sight: Sight) -> None:
        """Draw."""
        if self._live is not None:
            self._live.update(render(board, sight))
            return
        line = f"{board.phase}: {board.detail}" if board.detail else board.phase
        if line != self._said:
            self._said = line
            self._console.print(f"[{board.seconds:6.1f} s] {board.sim} {line}", highlight=False)


def render(board: Board, sight: Sight) -> RenderableType:
    """The whole screen."""
    head = Table.grid(expand=True)
    head.add_row(Text("EdgeLoop", style="bold"))
    head.add_row(Text(board.pace, style="dim"))
    clock = f"{board.seconds:.0f} s of {board.limit_s:.0f} s   {board.sim}"
    middle = Table.grid(expand=True, padding=(0, 1))
    middle.add_column(ratio=2)
    middle.add_column(ratio=3)
    middle.add_row(
        Panel(_phases(board), title=clock),
        Group(Panel(_fleet(board, sight), title="fleet"), Panel(_drift(sight), title="drift")),
    )
    return Group(head, middle, Panel(_releases(board, sight), title="builds and rollouts"))


def _phases(board: Board) -> RenderableType:
    current = PHASES.index(board.phase) if board.phase in PHASES else 0
    lines: list[RenderableType] = []
    for index, phase in enumerate(PHASES):
        mark, style = (
            ("done", "green") if index < current else ("now ", "bold cyan") if index == current else ("    ", "dim")
        )
        lines.append(Text(f"{mark}  {phase}", style=style))
    lines.append(Text(f"\n{board.detail[:60]}", style="cyan"))
    if board.share is not None:
        lines.append(ProgressBar(total=1.0, completed=board.share, width=40))
    return Group(*lines)


def _fleet(board: Board, sight: Sight) -> RenderableType:
    fleet = sight.fleet
    table = Table.grid(padding=(0, 2))
    if not fleet:
        return Text("no device yet", style="dim")
    running = ", ".join(f"{board.names.get(d, d[:8])}: {n}" for d, n in fleet.get("by_bundle", {}).items())
    table.add_row("joined", f"{fleet.get('joined', 0)} of {fleet.get('devices', 0)} light devices")
    table.add_row("running", running)
    table.add_row("frames", f"{fleet.get('observed', 0):,} observed, {fleet.get('upscaled', 0):,} upscaled")
    table.add_row("uploads", f"{fleet.get('segments', 0)} hard segments, {fleet.get('reports', 0)} daily reports")
    table.add_row("rolled back", str(fleet.get("rolled_back", 0)))
    return table


def _drift(sight: Sight) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for cohort in sight.cohorts[:6]:
        latest: Json = cohort.get("latest") or {}
        style = {"severe": "bold red", "warn": "yellow", "stable": "green"}.get(str(latest.get("state")), "dim")
        z = latest.get("z")
        table.add_row(
            cohort["cohort"],
            Text(str(latest.get("state", "-")), style=style),
            f"z {z:.1f}" if z is not None else "",
        )
    share = ((sight.coverage.get("after") or {}).get("share")) if sight.coverage else None
    if share is not None:
        table.add_row("coverage", f"{100 * share:.0f} % of hard segments", "")
    if sight.flow:
        table.add_row("flow", sight.flow, "")
    return table if table.row_count else Text("no report yet", style="dim")


def _releases(board: Board, sight: Sight) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for build in reversed(sight.builds[:5]):
        table.add_row("build", build["name"], build["state"], (build.get("message") or "")[:60])
    for rollout in reversed(sight.rollouts[:4]):
        stages = rollout.get("stages") or [{}]
        stage = stages[min(rollout.get("stage", 0), len(stages) - 1)]
        percent = (stage.get("basis_points") or 0) / 100
        share = f"{percent:.0f} %, {stage.get('confirmed', 0)} confirmed, {stage.get('failed', 0)} failed"
        name = board.names.get(rollout["digest"], rollout["release_version"])
        table.add_row(
            "rollout",
            name,
            rollout["state"],
            share if rollout["state"] == "running" else (rollout.get("cause") or "")[:70],
        )
    return table if table.row_count else Text("none yet", style="dim")
