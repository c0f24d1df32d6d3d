"""The two steps of a build, each under a lease: compile, then judge. Both may be repeated at any point.

A step that fails for a reason of ours (a lab that dies, storage that is away) gives the build back and is tried again
by the sweep, up to the allowed attempts; then the build is `failed` with the last reason. A step that fails for a
reason of the model ends at once: `refused` or `blocked`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.clock import clock_from_environment
from contracts.npu.spec import load_spec
from contracts.wire import BuildRequest, BuildState, GateVerdict
from services.builds import bench, evidence, held, leases, service
from services.builds.compiling import Compiled, Refused, compile_in_child
from services.builds.gate import judge
from services.builds.leases import Lease
from services.builds.limits import WORK
from services.builds.loading import loads_of
from services.builds.measurements import Candidate
from services.builds.models import BuildRow, EvaluationSetRow
from services.builds.states import COMPILABLE, GATEABLE, check_transition, is_final
from services.kit.database import transaction
from services.kit.storage import store

log = structlog.get_logger(__name__)
MESSAGE_CHARS = 2_000


def compile_step(build_id: str) -> None:
    """Compile a queued build; does nothing when another worker has it or it is past this step."""
    lease = leases.claim(build_id, COMPILABLE, BuildState.COMPILING)
    if lease is not None:
        _guarded(lease, _compile)


def gate_step(build_id: str) -> None:
    """Judge a compiled build; does nothing when another worker has it or it is past this step."""
    lease = leases.claim(build_id, GATEABLE, BuildState.GATING)
    if lease is not None:
        _guarded(lease, _judge)


def _guarded(lease: Lease, step: Callable[[Lease], None]) -> None:
    if lease.attempt > WORK.attempts:
        _give_up(lease)
        return
    try:
        with leases.held(lease):
            step(lease)
    except leases.LeaseLost:
        log.warning("build_taken_over", build=lease.build_id)
    except Exception as error:  # whatever went wrong is kept beside the build, and the sweep tries again
        log.warning("build_step_failed", build=lease.build_id, attempt=lease.attempt, exc_info=error)
        _give_back(lease, error)


def _compile(lease: Lease) -> None:
    with transaction() as session:
        row = leases.owned(session, lease)
        request, inputs = BuildRequest.model_validate(row.request), dict(row.inputs)
    with tempfile.TemporaryDirectory(prefix="edgeloop-build-") as folder:
        data = {name: store().get(part["key"]) for name, part in inputs.items()}
        outcome = compile_in_child(Path(folder), request, data)
        if isinstance(outcome, Compiled):
            key = f"builds/bundles/{outcome.digest}.elb"
            store().put(key, outcome.path.read_bytes())
    with transaction() as session:
        row = leases.owned(session, lease)
        if isinstance(outcome, Refused):
            _move(row, BuildState.REFUSED, f"{outcome.node}: {outcome.reason}", outcome.remedy)
            return
        row.digest, row.size_bytes, row.bundle_key = outcome.digest, outcome.size, key
        row.attempts = 0
        _move(row, BuildState.GATING)
        service.send_work(session, row)


def _judge(lease: Lease) -> None:
    with transaction() as session:
        row = leases.owned(session, lease)
        request = BuildRequest.model_validate(row.request)
        sets = _sets(session, request)
        production = _production(session, row, request)
        session.expunge_all()
    items = [bench.Item(one.digest, one.bundle_key) for one in (row, production) if one is not None]
    result = bench.run(items, request.targets, bench.clips_of(sets))
    candidate = _candidate(row, request, sets, result)
    standard = None if production is None else _candidate(production, request, sets, result)
    verdict = judge(candidate, standard)
    judged_at = clock_from_environment().now()
    document = evidence.document(
        _subject(row),
        [service.describe_set(one).model_dump(mode="json") for one in sets],
        result.labs,
        candidate,
        standard,
        verdict,
        judged_at,
    )
    data = evidence.to_bytes(document)
    store().put(evidence.key_of(data), data)
    with transaction() as session:
        row = leases.owned(session, lease)
        held.note(session, judged_at, row.id)
        row.verdict, row.evidence_key = verdict.model_dump(mode="json"), evidence.key_of(data)
        _move(row, BuildState.PASSED if verdict.passed else BuildState.BLOCKED, *_words(verdict))


def _candidate(
    row: BuildRow, request: BuildRequest, sets: Sequence[EvaluationSetRow], result: bench.BenchResult
) -> Candidate:
    return Candidate(
        build_id=row.id,
        size_bytes=row.size_bytes,
        measurements=result.rows[row.digest],
        float_psnr=request.float_psnr,
        sram_limits={target: load_spec(target).sram_bytes for target in request.targets},
        set_names={one.id: one.name for one in sets},
        loads=loads_of(store().path(row.bundle_key)),
    )


def _sets(session: Session, request: BuildRequest) -> Sequence[EvaluationSetRow]:
    query = select(EvaluationSetRow).where(EvaluationSetRow.id.in_(request.evaluation_sets))
    return session.scalars(query.order_by(EvaluationSetRow.created, EvaluationSetRow.id)).all()


def _production(session: Session, row: BuildRow, request: BuildRequest) -> BuildRow | None:
    if request.parent_build is not None:
        return session.get(BuildRow, request.parent_build)
    return session.scalars(select(BuildRow).where(BuildRow.production, BuildRow.id != row.id)).one_or_none()


def _subject(row: BuildRow) -> evidence.Subject:
    return evidence.Subject(
        build_id=row.id,
        name=row.name,
        release_version=row.release_version,
        bundle_sha384=row.digest,
        bundle_bytes=row.size_bytes,
        inputs=row.inputs,
        request=row.request,
    )


def _words(verdict: GateVerdict) -> tuple[str, str]:
    if verdict.passed:
        return f"all {len(verdict.checks)} checks of the gate passed", ""
    noun = "check" if len(verdict.reasons) == 1 else "checks"
    message = f"the gate blocked this build: {len(verdict.reasons)} {noun} failed; " + "; ".join(verdict.reasons)
    return message, "see the verdict's checks and the evidence; correct the model and send it as a new build"


def _move(row: BuildRow, after: BuildState, message: str = "", remedy: str = "") -> None:
    check_transition(BuildState(row.state), after)
    row.state = after.value
    row.message, row.remedy = message[:MESSAGE_CHARS], remedy[:MESSAGE_CHARS]
    if is_final(after):
        row.finished = clock_from_environment().now()
    leases.release(row)


def _give_back(lease: Lease, error: Exception) -> None:
    try:
        with transaction() as session:
            row = leases.owned(session, lease)
            row.message = f"attempt {lease.attempt} failed and is tried again: {error}"[:MESSAGE_CHARS]
            leases.release(row)
            row.touched_at = func.now()
    except Exception as second:  # the database is away too; the lease runs out by itself
        log.warning("build_not_given_back", build=lease.build_id, exc_info=second)


def _give_up(lease: Lease) -> None:
    with transaction() as session:
        row = leases.owned(session, lease)
        _move(
            row,
            BuildState.FAILED,
            f"gave up after {WORK.attempts} attempts; {row.message or 'the worker died each time'}",
            "repair the cause (lab command, storage, memory) and send the build again",
        )
