"""The page of one file: the answers first, then for every program and profile the pictures and their tables.

Invariant: the text is complete in itself. No script, no font, no picture and no style sheet is fetched.
"""

from __future__ import annotations

from html import escape
from importlib import resources

from compiler.html import parts
from compiler.html.tables import Raw, pairs, paragraph, table
from compiler.measures.answers import view_answers
from compiler.measures.kernels import FrameUsage
from compiler.measures.texts import count, milliseconds, share, size
from compiler.measures.views import FileView, ProfileView, ProgramView

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MODELS = ("u85-like", "ideal")
_OPEN = 2  # profiles that stand open when the page is loaded


def render_page(view: FileView) -> str:
    """The whole page as text."""
    style = (resources.files(__package__) / "style.css").read_text(encoding="utf-8")
    title = f"{view.file} on its NPU"
    sections = [
        _profile(program, profile, opened=number < _OPEN) for number, (program, profile) in enumerate(_pairs(view))
    ]
    programs = [
        f'<section class="panel"><h2>{escape(_where(program))}: operators</h2>{parts.placement_part(program)}</section>'
        for program in view.programs
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"{_header(view)}<main>{_summary(view)}{''.join(sections)}{''.join(programs)}{_pieces(view)}</main>"
        f"{_footer()}</body></html>\n"
    )


def _pairs(view: FileView) -> list[tuple[ProgramView, ProfileView]]:
    return [(program, profile) for program in view.programs for profile in program.profiles]


def _where(program: ProgramView, profile: ProfileView | None = None) -> str:
    core = " (little core)" if program.core == "little" else ""
    return f"{program.target}/{program.name}" + (f" {profile.profile.name}" if profile else "") + core


def _anchor(program: ProgramView, profile: ProfileView) -> str:
    return f"{program.target}-{program.name}-{profile.profile.name}"


def _header(view: FileView) -> str:
    release = view.release
    facts = [f"{size(view.size)}"]
    if release:
        facts += [f"release {release['release_version']}", f"security epoch {release['security_epoch']}"]
    lines = (f"build {release['build_id']}", f"SHA-384 {release['digest']}") if release else ()
    identity = "".join(paragraph(line, "id") for line in lines)
    return f"<header><h1>{escape(view.file)}</h1>{paragraph(' · '.join(facts))}{identity}</header>"


def _summary(view: FileView) -> str:
    heads = (
        "program",
        "fits",
        "limited by",
        "on the CPU",
        *_MODELS,
        "frames/s",
        "launches",
        "dispatches",
        "SRAM",
        "DDR",
    )
    rows = []
    for program, profile in _pairs(view):
        usage = profile.frame().usage
        link = f'<a href="#{escape(_anchor(program, profile))}">{escape(_where(program, profile))}</a>'
        rows.append(
            (
                Raw(link),
                "yes" if not profile.spilled else "partly",
                usage.limit,
                ", ".join(profile.host_kernels) or "nothing",
                *(milliseconds(profile.frame(model).estimate.total_ns) for model in _MODELS),
                f"{profile.profile.streams * 1e9 / usage.total_ns:.1f}" if usage.total_ns else "",
                f"{usage.sum('launches'):.0f}",
                f"{usage.sum('dispatches'):.0f}",
                size(profile.profile.sram_peak),
                size(profile.profile.ddr_bytes),
            )
        )
    caption = "One frame of each program and profile; frames/s under the u85-like array model"
    return f'<section class="panel"><h2>At a glance</h2>{table(caption, heads, rows, words=4)}</section>'


def _profile(program: ProgramView, view: ProfileView, *, opened: bool) -> str:
    where, anchor = _where(program, view), _anchor(program, view)
    frame = view.frame()
    state = " open" if opened else ""
    told = f"{milliseconds(frame.estimate.total_ns)}, {size(view.profile.sram_peak)} of SRAM"
    content = (
        pairs(view_answers(program, view)),
        _figures(program, view),
        _schedule(view),
        parts.time_part(anchor, where, view),
        parts.timeline_part(anchor, where, view),
        parts.memory_part(anchor, where, view),
        parts.roofline_part(anchor, where, view),
    )
    head = f'<summary>{escape(where)} <span class="dim">{escape(told)}</span></summary>'
    return f'<details class="panel" id="{escape(anchor)}"{state}>{head}{"".join(content)}</details>'


def _figures(program: ProgramView, view: ProfileView) -> str:
    frames = tuple(reversed(view.frames))
    usages = [frame.usage for frame in frames]
    profile = view.profile
    rate = [
        f"{share(frame.estimate.ddr_bytes / usage.sum('transfer_ns') / view.spec.ddr_bytes_per_ns)}"
        if usage.sum("transfer_ns")
        else ""
        for frame, usage in zip(frames, usages, strict=True)
    ]
    hidden = ["" if usage.hidden_share is None else share(usage.hidden_share) for usage in usages]
    busy = [share(usage.sum("macs") / view.spec.peak_macs_per_ns / usage.total_ns) for usage in usages]
    rows = [
        ("frame", *(milliseconds(frame.estimate.total_ns) for frame in frames)),
        ("without launches and dispatches", *(milliseconds(_bare(usage)) for usage in usages)),
        ("use of the array's peak", *busy),
        ("DDR efficiency while transferring", *rate),
        ("transfer time hidden", *hidden),
    ]
    same = f"{program.kernels.get('operators_before', '?')} operators, {count(usages[0].sum('macs'))}MAC, "
    same += f"{view.command_count} commands, {size(profile.ddr_bytes)} of DDR traffic; planner: "
    same += f"{view.plan.get('planner', 'not recorded')}"
    same += f", {view.plan['proof']}" if view.plan.get("proof") else ""
    naive = view.plan.get("naive_peak")
    if naive:
        same += f"; operator by operator with all tensors in SRAM it would be {size(naive)}"
    return table(same, ("one frame", *(frame.model.name for frame in frames)), rows)


def _schedule(view: ProfileView) -> str:
    """How the kernels are cut into stripes, and what the compiler noted about it."""
    cuts = [
        f"{cut['first']} … {cut['last']} in stripes of up to {cut['rows']} rows"
        for cut in view.plan.get("segments", ())
    ]
    lines = ["; ".join(cuts)] if cuts else []
    lines += [*view.plan.get("reasons", ()), *view.plan.get("notes", ())]
    return f'<ul class="notes">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>' if lines else ""


def _bare(usage: FrameUsage) -> float:
    return usage.total_ns - usage.sum("launch_ns") - usage.sum("dispatch_ns")


def _pieces(view: FileView) -> str:
    inside = parts.pieces_part(view)
    return f'<section class="panel"><h2>Sizes</h2>{inside}</section>' if inside else ""


def _footer() -> str:
    return (
        "<footer><p>Times are estimates of the timing model in docs/reference/npu-spec.md, at the nominal clock and "
        "without a device's noise. The ideal array fills every MAC; the u85-like array pads taps and channels."
        "</p></footer>"
    )
