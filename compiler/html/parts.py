"""The parts of the page, each from the views of ``compiler.measures``: a heading, a picture, the table behind it."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.html.bars_picture import PARTS, floors, kernel_bars, roofline
from compiler.html.lanes import Lane, lanes, window
from compiler.html.memory_picture import memory_picture
from compiler.html.tables import folded, legend, paragraph, table
from compiler.html.timeline_picture import excerpt, overview
from compiler.measures.live_ranges import Kind, LiveRange
from compiler.measures.texts import count, milliseconds, share, size
from compiler.measures.views import FileView, ProfileView, ProgramView
from contracts.npu import Space

_MEANINGS = {
    Kind.WEIGHTS: "weights",
    Kind.SCALES: "scales",
    Kind.MAP: "feature map",
    Kind.RING: "ring of rows",
    Kind.STAGING: "rows on their way in or out",
    Kind.INPUT: "input and output",
    Kind.STATE: "kept for the next frame",
}

_EVENTS = (
    ("compute", "computing"),
    ("launch", "launch or dispatch"),
    ("transfer", "transfer"),
    ("stream", "operands in DDR, streamed somewhere within"),
)


def memory_part(identifier: str, where: str, view: ProfileView) -> str:
    """Memory map of SRAM, of DDR where intermediates live there, and every range."""
    ranges, end = view.ranges, view.frame().estimate.total_ns
    bound = view.plan.get("lower_bound")
    kinds = {Kind.INPUT if entry.kind == Kind.OUTPUT else entry.kind for entry in ranges}
    content = [
        "<h3>Memory</h3>",
        paragraph(
            "Each rectangle is a run of bytes and the time in which it holds something that is still needed. "
            "Rectangles above each other exist at once; one behind another in the same rows reuses its bytes.",
            "dim",
        ),
        legend((kind.value, meaning) for kind, meaning in _MEANINGS.items() if kind in kinds),
        paragraph("SRAM", "over"),
        memory_picture(f"{identifier}-sram", where, ranges, Space.SRAM, view.spec.sram_bytes, bound, end),
    ]
    outside = [entry for entry in ranges if entry.space == Space.DDR]
    if any(entry.kind not in (Kind.INPUT, Kind.OUTPUT) for entry in outside):
        extent = view.profile.ddr_extent
        content.append(paragraph("DDR, as much as the program uses", "over"))
        content.append(memory_picture(f"{identifier}-ddr", where, ranges, Space.DDR, extent, None, end))
    content.append(folded(f"All {len(ranges)} ranges", _range_table(ranges)))
    return "".join(content)


def _range_table(ranges: tuple[LiveRange, ...]) -> str:
    heads = ("range", "kind", "written by", "read by", "shares bytes with", "memory", "offset", "bytes", "from", "to")
    rows = (
        (
            entry.label,
            _kind(entry),
            ", ".join(entry.writers),
            ", ".join(entry.readers),
            _sharing(entry, ranges),
            entry.space.name,
            f"{entry.offset:,}",
            f"{entry.size:,}",
            milliseconds(entry.begin_ns),
            milliseconds(entry.end_ns),
        )
        for entry in ranges
    )
    return table("Live ranges, by memory and address", heads, rows, words=6)


def _kind(entry: LiveRange) -> str:
    rows = f", {entry.rows} rows" if entry.rows else ""
    return f"{entry.kind.value}{rows}{', in place' if entry.in_place else ''}"


def _sharing(entry: LiveRange, ranges: tuple[LiveRange, ...], most: int = 4) -> str:
    names = [other.label for other in ranges if other is not entry and entry.shares_bytes(other)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def timeline_part(identifier: str, where: str, view: ProfileView) -> str:
    """Timeline of the frame and, when it is long, a few stripes of it."""
    frame = view.frame()
    rows = lanes(view.commands, frame.estimate.events)
    chosen = window(rows)
    hidden = frame.usage.hidden_share
    told = "no transfer" if hidden is None else f"{share(hidden)} of the transfer time does not lengthen the frame"
    content = [
        "<h3>Timeline</h3>",
        paragraph(f"Both queues under the {frame.model.name} array model; {told}.", "dim"),
        legend(_EVENTS),
        overview(f"{identifier}-frame", where, rows, frame.estimate.total_ns, chosen),
    ]
    if chosen:
        content.append(paragraph("The marked excerpt:", "dim"))
        content.append(excerpt(f"{identifier}-excerpt", where, rows, *chosen))
    shown = chosen or (0.0, frame.estimate.total_ns)
    content.append(folded("Events of the excerpt" if chosen else "All events", _event_table(rows, *shown)))
    return "".join(content)


def _event_table(rows: tuple[Lane, ...], begin: float, end: float) -> str:
    heads = ("kernel", "queue", "lane", "stripe", "start", "end", "launch or dispatch", "DDR bytes")
    bars = [(lane, bar) for lane in rows for bar in lane.between(begin, end)]
    cells = (
        (
            bar.event.kernel,
            lane.queue,
            lane.name,
            str(bar.stripe or ""),
            f"{bar.event.start_ns / 1e6:.4f} ms",
            f"{bar.event.end_ns / 1e6:.4f} ms",
            milliseconds(bar.event.overhead_ns),
            f"{bar.event.ddr_bytes:,}",
        )
        for lane, bar in sorted(bars, key=lambda pair: pair[1].event.start_ns)
    )
    return table("Events in order of their start", heads, cells, words=3)


def time_part(identifier: str, where: str, view: ProfileView) -> str:
    """Where the time goes, kernel by kernel."""
    frames = [frame.usage for frame in reversed(view.frames)]
    heads = ["kernel", *(f"{frame.array_model}" for frame in frames), "computing", "waiting", "launch", "dispatch"]
    heads += ["stripes", "MACs", "DDR", "transfer hidden", "limited by"]
    first = frames[0]
    rows = []
    for index, kernel in enumerate(first.kernels):
        hidden = kernel.hidden_share
        rows.append(
            (
                kernel.name,
                *(milliseconds(frame.kernels[index].total_ns) for frame in frames),
                *(milliseconds(getattr(kernel, f"{part}_ns")) for part, _ in PARTS),
                str(kernel.stripes),
                count(kernel.macs),
                size(kernel.ddr_bytes),
                "" if hidden is None else share(hidden),
                kernel.bound_by,
            )
        )
    return "".join(
        (
            "<h3>Where the time goes</h3>",
            legend(PARTS),
            kernel_bars(f"{identifier}-time", where, frames),
            table(f"Kernels; the split is that of the {first.array_model} array", heads, rows),
        )
    )


def roofline_part(identifier: str, where: str, view: ProfileView) -> str:
    """Physical floors and the estimate, both array models."""
    frames = [frame.usage for frame in reversed(view.frames)]
    moved = view.frame().estimate.ddr_bytes
    values = [floors(view.spec, frame, moved) for frame in frames]
    rows = [
        (name, *(milliseconds(panel[index][2]) for panel in values)) for index, (name, _, _) in enumerate(values[0])
    ]
    drawing = roofline(f"{identifier}-roofline", where, view.spec, frames, moved)
    heads = ("floor or part", *(frame.array_model for frame in frames))
    return f"<h3>Roofline</h3>{drawing}{folded('Table', table('Floors, parts and estimate', heads, rows))}"


def placement_part(program: ProgramView) -> str:
    """Where every operator runs, which edges stayed in memory and why, and what was fused."""
    used = {kernel.name: kernel for kernel in program.profiles[0].frame().usage.kernels}
    rows = []
    for entry in program.placement:
        name = str(entry.get("name", ""))
        operations = ", ".join(used[name].operations) if name in used else ""
        unit = str(entry.get("unit", "CPU" if "HOST" in operations else "NPU"))
        nodes = ", ".join(map(str, entry.get("nodes", ())))
        rows.append((name, unit, operations, nodes, str(entry.get("reason", ""))))
    edges = [(str(e.get("producer")), str(e.get("consumer")), str(e.get("reason"))) for e in program.unfused]
    return "".join(
        (
            "<h3>Where operators run</h3>",
            table("Kernels and the ONNX nodes that they compute", _PLACEMENT, rows, words=5),
            folded(f"{len(program.kernels.get('operators', ()))} operators one by one", _operators(program)),
            "<h3>Edges that stayed in memory</h3>",
            table("Unfused edges", ("producer", "consumer", "reason"), edges, words=3),
            folded(f"{len(program.changes)} changes by the passes", _list(program.changes)),
        )
    )


_PLACEMENT = ("kernel", "runs on", "commands", "nodes", "reason")


def _operators(program: ProgramView) -> str:
    rows = (
        (str(entry["operator"]), str(entry["unit"]), str(entry["reason"]), ", ".join(map(str, entry["nodes"])))
        for entry in program.kernels.get("operators", ())
    )
    return table("Operators after fusion", ("operator", "runs on", "reason", "nodes"), rows, words=4)


def _list(lines: Iterable[str]) -> str:
    rows = ((line.partition(": ")[0], line.partition(": ")[2]) for line in lines)
    return table("Changes in order", ("pass", "change"), rows, words=2)


def pieces_part(view: FileView) -> str:
    """Sizes of the bundle's pieces."""
    rows = [(name, f"{length:,}", size(length)) for name, length in view.pieces.items()]
    return table("Pieces of the bundle", ("piece", "bytes", ""), rows) if rows else ""
