"""The memory plan of one profile: where every buffer lives, and why something had to leave SRAM.

Two ways to hold the constants are tried, resident (loaded once) and streamed (a DMA before each kernel,
prefetched one kernel ahead); the plan with less DDR traffic wins, resident on a tie. When activations do not
fit, buffers move to DDR one by one, those with the least traffic for each freed byte first. Input and outputs
always live in DDR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.constants import Constants
from compiler.errors import DoesNotFit
from compiler.memory.buffers import Buffer, value_buffers
from compiler.memory.greedy import place
from compiler.memory.placement import Placement, Proof
from compiler.memory.planner import HURRIED, Effort, Patience, plan_placement
from compiler.schedule import Schedule
from contracts.npu import NpuSpec, Space

CONSTANTS = "<constants>"
QUANT = "<quant>"


def weights_buffer(kernel: str) -> str:
    """Name of the buffer of a kernel's streamed constants."""
    return f"<weights of {kernel}>"


@dataclass(frozen=True)
class Home:
    """Space and offset of a buffer."""

    space: Space
    offset: int


@dataclass(frozen=True)
class MemoryPlan:
    """``homes`` by buffer name, ``value_homes`` by value; ``weights_resident``: constants stay in SRAM."""

    buffers: tuple[Buffer, ...]
    homes: Mapping[str, Home]
    value_homes: Mapping[str, Home]
    weights_resident: bool
    peak: int
    bound: int
    method: str
    proof: str
    """Whether the peak is known to be the least, in words."""

    ddr_extent: int
    traffic: int
    reasons: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the peak lies above the lower bound, as a share of the bound."""
        return self.peak / self.bound - 1 if self.bound else 0.0


def plan_memory(
    schedule: Schedule,
    constants: Constants,
    quant_bytes: int,
    spec: NpuSpec,
    *,
    share: bool = True,
    streams: int = 1,
    patience: Patience = HURRIED,
) -> MemoryPlan:
    """Plan one profile; raises DoesNotFit. Without `share` every value has a place of its own, in DDR. Input and
    outputs have room for all `streams`.
    """
    if not share:
        return _unshared(schedule, constants, quant_bytes, spec, streams)
    resident = _plan(schedule, constants, quant_bytes, spec, streams, patience, resident=True)
    if resident is not None and not resident.reasons:
        return resident
    streamed = None
    if constants.streamable:
        streamed = _plan(schedule, constants, quant_bytes, spec, streams, patience, resident=False)
    plans = [plan for plan in (resident, streamed) if plan is not None]
    if not plans:
        largest = max(size for _, size in constants.kernels.values())
        reason = f"weights of one kernel ({largest} bytes) and the scales exceed {spec.sram_bytes} bytes of SRAM"
        raise DoesNotFit("model", reason, "use fewer channels or a larger target")
    return min(plans, key=lambda plan: (plan.traffic, not plan.weights_resident))


def _unshared(schedule: Schedule, constants: Constants, quant_bytes: int, spec: NpuSpec, streams: int) -> MemoryPlan:
    """What a compiler without a planner does: constants come kernel by kernel, every value lives in DDR."""
    attempt = _attempt(schedule, constants, quant_bytes, resident=False)
    end = len(schedule.steps) - 1
    values = [
        Buffer(v, schedule.graph.values[v].size, 0, end, (v,)) for b in (*attempt.sram, *attempt.ddr) for v in b.values
    ]
    outside = {*schedule.graph.inputs, *(value for _, value in schedule.graph.outputs)}
    attempt.ddr = [buffer for buffer in values if buffer.name in outside]
    attempt.spilled = [buffer for buffer in values if buffer.name not in outside]
    attempt.sram, attempt.reasons = [], ["memory planning is switched off"]
    return _finished(schedule, constants, spec, attempt, attempt.placed(spec), streams)


@dataclass
class _Attempt:
    """One way to hold the constants, while buffers move to DDR until the rest fits."""

    resident: bool
    fixed: list[Buffer]
    sram: list[Buffer]
    ddr: list[Buffer]
    spilled: list[Buffer]
    reasons: list[str]
    patience: Patience = HURRIED

    def placed(self, spec: NpuSpec) -> Placement:
        return place_pinned([*self.fixed, *self.sram], spec.alignment, spec.sram_bytes, self.patience)


def place_pinned(
    buffers: Sequence[Buffer], alignment: int, capacity: int | None = None, patience: Patience = HURRIED
) -> Placement:
    """Place with the table and the resident constants at the bottom, in this order, whatever the profile: a device
    that switches profiles finds them where they are. With a ``capacity`` the rest is planned with effort where the
    greedy orders leave a gap and a fit is possible, and searched for on as long as ``patience`` lasts.
    """
    pinned: dict[str, int] = {}
    base = 0
    sizes = {buffer.name: buffer.size for buffer in buffers}
    for name in (QUANT, CONSTANTS):
        if name in sizes:
            pinned[name] = base
            base += -(-sizes[name] // alignment) * alignment
    others = [buffer for buffer in buffers if buffer.name not in pinned]
    rest = place(others, alignment)
    if capacity is not None and rest.proof is Proof.NONE and rest.bound <= capacity - base:
        rest = plan_placement(others, alignment, capacity - base)
        rest = _patient(others, alignment, rest, patience)
    offsets = {**pinned, **{name: base + offset for name, offset in rest.offsets.items()}}
    peak = max((offsets[buffer.name] + buffer.size for buffer in buffers), default=0)
    return Placement(offsets, peak, rest.method, base + rest.bound, rest.proof)


def _patient(buffers: Sequence[Buffer], alignment: int, known: Placement, patience: Patience) -> Placement:
    """The better of what is known and what a thorough search finds or proves."""
    left = patience.left
    if known.proof is not Proof.NONE or left == 0.0:
        return known
    found = plan_placement(buffers, alignment, effort=Effort.THOROUGH, budget_s=left)
    bound = max(found.bound, known.bound)
    return replace(min(found, known, key=lambda placement: placement.peak), bound=bound, proof=found.proof)


def _plan(
    schedule: Schedule,
    constants: Constants,
    quant_bytes: int,
    spec: NpuSpec,
    streams: int,
    patience: Patience,
    *,
    resident: bool,
) -> MemoryPlan | None:
    attempt = _attempt(schedule, constants, quant_bytes, resident=resident)
    attempt.patience = patience
    placement = attempt.placed(spec)
    while placement.peak > spec.sram_bytes:
        if not attempt.sram:
            return None
        victim = _victim(schedule, [*attempt.fixed, *attempt.sram], attempt.sram)
        attempt.reasons.append(
            f"{victim.name} ({victim.size} bytes, steps {victim.first}-{victim.last}) lives in DDR: "
            f"{placement.peak} bytes would be needed, SRAM has {spec.sram_bytes}"
        )
        attempt.sram.remove(victim)
        attempt.spilled.append(victim)
        placement = attempt.placed(spec)
    return _finished(schedule, constants, spec, attempt, placement, streams)


def _attempt(schedule: Schedule, constants: Constants, quant_bytes: int, *, resident: bool) -> _Attempt:
    outside = {*schedule.graph.inputs, *(value for _, value in schedule.graph.outputs)}
    values = value_buffers(schedule)
    return _Attempt(
        resident=resident,
        fixed=_fixed_buffers(schedule, constants, quant_bytes, resident=resident),
        sram=[buffer for buffer in values if not outside & set(buffer.values)],
        ddr=[buffer for buffer in values if outside & set(buffer.values)],
        spilled=[],
        reasons=[] if resident else [f"constants ({len(constants.data)} bytes) are streamed, SRAM is short"],
    )


def _fixed_buffers(schedule: Schedule, constants: Constants, quant_bytes: int, *, resident: bool) -> list[Buffer]:
    end = len(schedule.steps) - 1
    buffers = [Buffer(QUANT, quant_bytes, 0, end)] if quant_bytes else []
    if resident:
        return [*buffers, Buffer(CONSTANTS, len(constants.data), 0, end)] if constants.data else buffers
    first = previous = 0
    for kernel in schedule.kernels:
        last = first + len(kernel.steps) - 1
        size = constants.kernels[kernel.name][1]
        if size:
            buffers.append(Buffer(weights_buffer(kernel.name), size, previous, last))
        previous, first = first, last + 1
    return buffers


def _victim(schedule: Schedule, alive: list[Buffer], candidates: list[Buffer]) -> Buffer:
    """The buffer to move: alive at the fullest step, least accessed, then largest, then first."""
    steps = {buffer.first for buffer in alive}
    fullest = max(sorted(steps), key=lambda step: sum(b.size for b in alive if b.first <= step <= b.last))
    present = [buffer for buffer in candidates if buffer.first <= fullest <= buffer.last] or candidates
    return min(present, key=lambda b: (_accesses(schedule, b), -b.size, b.first))


def _accesses(schedule: Schedule, buffer: Buffer) -> int:
    names = set(buffer.values)
    return sum((step.result in names) + sum(value in names for value in step.reads) for step in schedule.steps)


def _finished(
    schedule: Schedule,
    constants: Constants,
    spec: NpuSpec,
    attempt: _Attempt,
    placement: Placement,
    streams: int,
) -> MemoryPlan:
    homes = {name: Home(Space.SRAM, offset) for name, offset in placement.offsets.items()}
    outside, extent = _ddr_homes(schedule, attempt, spec, streams)
    homes.update(outside)
    buffers = (*attempt.fixed, *attempt.sram, *attempt.ddr, *attempt.spilled)
    traffic = sum(buffer.size * _accesses(schedule, buffer) for buffer in (*attempt.ddr, *attempt.spilled))
    return MemoryPlan(
        buffers=buffers,
        homes=homes,
        value_homes={value: homes[buffer.name] for buffer in buffers for value in buffer.values},
        weights_resident=attempt.resident,
        peak=placement.peak,
        bound=placement.bound,
        method=placement.method,
        proof=placement.status,
        ddr_extent=extent,
        traffic=traffic if attempt.resident else traffic + len(constants.data),
        reasons=tuple(attempt.reasons),
    )


def _ddr_homes(schedule: Schedule, attempt: _Attempt, spec: NpuSpec, streams: int) -> tuple[dict[str, Home], int]:
    """Input first, then outputs, then what was moved out of SRAM; and the size of it all."""
    homes: dict[str, Home] = {}
    offset = 0
    for buffer in sorted(attempt.ddr, key=lambda b: (schedule.graph.input not in b.values, b.first)):
        homes[buffer.name] = Home(Space.DDR, offset)
        offset += -(-buffer.size * streams // spec.alignment) * spec.alignment
    overflow = place(attempt.spilled, spec.alignment)
    homes.update({name: Home(Space.DDR, offset + at) for name, at in overflow.offsets.items()})
    extent = offset + overflow.peak
    if extent > spec.ddr_bytes:
        reason = f"{extent} bytes of DDR, the target has {spec.ddr_bytes}"
        raise DoesNotFit("model", reason, "use a smaller profile")
    return homes, extent
