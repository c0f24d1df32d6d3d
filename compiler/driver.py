"""The compiler's front door: models in, verified bundle or program out.

``compile_bundle`` writes one file or nothing. ``compile_program`` is the fast path for the many small
networks that an architecture search measures. Both raise CompileError: one message with node, reason, remedy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compiler import COMPILER_VERSION, pieces
from compiler.errors import BadProfile, CompileError
from compiler.importer import SourceGraph, read_source
from compiler.ir import Graph
from compiler.limits import LIMITS
from compiler.little import PROGRAM, build_little, check_little, too_large
from compiler.measures.drivers import check_driver
from compiler.options import DEFAULT, CompileOptions
from compiler.passes.constant_folding import ConstantFolding
from compiler.program_builder import CompiledProgram, FusedProfile, build_program, fuse_profiles
from compiler.report import CompileReport, ProgramReport, report_program
from contracts.bundle import Bundle, write_bundle
from contracts.npu import UnknownTarget, load_spec

_WIDTH_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ReadModel:
    """A model after import and fusion, before any target."""

    name: str
    data: bytes
    source: SourceGraph
    profiles: list[FusedProfile]


def compile_bundle(
    model: bytes,
    quality: bytes | None,
    observer: bytes | None,
    targets: Sequence[str],
    profiles: Sequence[tuple[int, int]],
    meta: Mapping[str, object],
    out: Path,
    release_version: str,
    security_epoch: int,
    progress: Progress = lambda _: None,
    options: CompileOptions = DEFAULT,
    widths: Mapping[str, bytes] | None = None,
) -> CompileReport:
    """Compile ``model`` (and ``quality``) for all ``targets`` and input sizes (height, width) into the bundle
    ``out``. ``widths``: narrower variants of the model by name; they become profiles ``360x640@name`` of the same
    program and share its constants.
    """
    _check_targets(targets)
    check_little(options.little, widths or {})
    progress("reading")
    models = [_with_widths(read_model("model", model, profiles, options), widths or {}, profiles, options)]
    if quality is not None:
        models.append(read_model("quality", quality, profiles, options))
    _check_driver(models, targets, options)
    sizes = [profile.name for profile in models[0].profiles]
    facts = dict(meta) if options == DEFAULT else {**meta, "options": asdict(options)}
    if widths:
        facts["widths"] = {name: hashlib.sha256(data).hexdigest() for name, data in widths.items()}
    build = _build_id(model, quality, observer, targets, sizes, facts, release_version, security_epoch)
    compiled, notes = _compile_targets(models, targets, build, progress, options)
    sources = {f"{entry.name}.onnx": entry.data for entry in models}
    if observer is not None:
        sources["observer.npz"] = observer
    parts, reports = _pieces(models, build, compiled)
    reason = too_large(_size(parts) + _size(sources), _little_bytes(reports), options)
    if reason:
        parts, reports = _pieces(models, build, {target: _without_little(made) for target, made in compiled.items()})
        notes = [*notes, reason]
    little = {"net": options.little, "targets": [entry.target for entry in reports if entry.program == PROGRAM]}
    meta = {**meta, "little": little} if little["targets"] else meta
    parts["meta.json"] = pieces.meta_json(build.hex(), meta, targets, sizes, release_version, security_epoch)
    parts.update(sources)
    progress("writing")
    write_bundle(out, parts, build_id=build, release_version=release_version, security_epoch=security_epoch)
    bundle = Bundle.open(out)
    return CompileReport(
        path=str(out),
        build_id=build.hex(),
        digest=bundle.digest,
        size=bundle.size,
        release_version=release_version,
        security_epoch=security_epoch,
        programs=tuple(reports),
        little_bytes=_little_bytes(reports),
        notes=tuple(notes),
    )


def compile_program(
    model: bytes, target: str, profiles: Sequence[tuple[int, int]], options: CompileOptions = DEFAULT
) -> tuple[bytes, ProgramReport]:
    """One model for one target: program bytes and report."""
    compiled, entry = compile_one(model, target, profiles, options)
    return compiled.data, report_program("model", entry.source, compiled)


def compile_one(
    model: bytes, target: str, profiles: Sequence[tuple[int, int]], options: CompileOptions = DEFAULT
) -> tuple[CompiledProgram, ReadModel]:
    """One model for one target, with everything the compiler knows about it."""
    _check_targets([target])
    entry = read_model("model", model, profiles, options)
    _check_driver([entry], [target], options)
    sizes = [profile.name for profile in entry.profiles]
    build = _build_id(model, None, None, [target], sizes, {"options": asdict(options)}, "", 0)
    return build_program(entry.profiles, load_spec(target), build, options), entry


def read_model(
    name: str, data: bytes, sizes: Sequence[tuple[int, int]], options: CompileOptions = DEFAULT
) -> ReadModel:
    """Import and fuse for all input sizes (height, width); raises CompileError."""
    try:
        source = ConstantFolding().run(read_source(data)).graph
        return ReadModel(name, data, source, fuse_profiles(source, _profile_sizes(source, sizes), options))
    except CompileError as error:
        if name != "model":
            raise type(error)(f"{name} net: {error.node}", error.reason, error.remedy) from error
        raise


def _check_driver(models: Sequence[ReadModel], targets: Sequence[str], options: CompileOptions) -> None:
    """Refuse what the oldest driver that must run the program lacks."""
    if options.driver is not None:
        graphs = [profile.fused.graph for model in models for profile in model.profiles]
        check_driver(options.driver, targets, graphs)


def _with_widths(
    model: ReadModel, widths: Mapping[str, bytes], sizes: Sequence[tuple[int, int]], options: CompileOptions
) -> ReadModel:
    """The model with the profiles of its narrower variants; they must take the same input."""
    profiles = list(model.profiles)
    for width, data in widths.items():
        if not width or any(letter not in _WIDTH_LETTERS for letter in width):
            raise BadProfile(width, "a width is named by letters, digits, dot and dash", 'call it for example "0.5"')
        variant = read_model("model", data, sizes, options)
        for wide, narrow in zip(model.profiles, variant.profiles, strict=True):
            _check_same_input(width, wide.imported, narrow.imported)
            profiles.append(replace(narrow, name=f"{narrow.name}@{width}", variant=width))
    if len(profiles) > LIMITS.profiles:
        raise BadProfile("model", f"{len(profiles)} profiles with all widths", f"keep to {LIMITS.profiles}")
    return replace(model, profiles=profiles)


def _check_same_input(width: str, wide: Graph, narrow: Graph) -> None:
    one, other = wide.values[wide.input], narrow.values[narrow.input]
    if one.shape != other.shape or not one.same_quantization(other):
        reason = f"width {width} takes {other.shape} of scale {other.scale:.6g}, the model {one.shape}, {one.scale:.6g}"
        raise BadProfile(narrow.input, reason, "export all widths with the same input quantisation")


def _compile_targets(
    models: Sequence[ReadModel],
    targets: Sequence[str],
    build: bytes,
    progress: Progress,
    options: CompileOptions = DEFAULT,
) -> tuple[dict[str, dict[str, CompiledProgram]], list[str]]:
    """The programs by target and name, and why some have no little set."""
    found: dict[str, dict[str, CompiledProgram]] = {}
    notes: list[str] = []
    for target in targets:
        progress(f"compiling for {target}")
        found[target] = {
            entry.name: build_program(entry.profiles, load_spec(target), build, options) for entry in models
        }
        progress(f"compiling for {target}, little core")
        little = build_little(models[0].profiles, target, build, options)
        if little.program is not None:
            found[target][PROGRAM] = little.program
        notes += [little.reason] if little.reason else []
    return found, notes


def _pieces(
    models: Sequence[ReadModel], build: bytes, compiled: Mapping[str, Mapping[str, CompiledProgram]]
) -> tuple[dict[str, bytes], list[ProgramReport]]:
    """What the bundle says of its programs, and the programs."""
    sources = {PROGRAM: models[0].source, **{entry.name: entry.source for entry in models}}
    parts: dict[str, bytes] = {}
    reports: list[ProgramReport] = []
    for target, programs in compiled.items():
        own = {name: report_program(name, sources[name], program) for name, program in programs.items()}
        parts.update(_target_pieces(build.hex(), target, programs, own))
        parts["preprocess.json"] = pieces.preprocess(build.hex(), programs)
        reports += own.values()
    return parts, reports


def _without_little(programs: Mapping[str, CompiledProgram]) -> dict[str, CompiledProgram]:
    return {name: program for name, program in programs.items() if name != PROGRAM}


def _little_bytes(reports: Sequence[ProgramReport]) -> int:
    return sum(entry.size for entry in reports if entry.program == PROGRAM)


def _size(parts: Mapping[str, bytes]) -> int:
    return sum(len(data) for data in parts.values())


def _profile_sizes(source: SourceGraph, sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    if not sizes:
        height, width = source.input_shape[2:]
        if height is None or width is None:
            reason = f"height or width of {list(source.input_shape)} is dynamic and no profile is given"
            raise BadProfile(source.input, reason, "give a profile, for example 360x640")
        sizes = [(height, width)]
    if len(sizes) > LIMITS.profiles or len(set(sizes)) != len(sizes):
        reason = f"{len(sizes)} profiles, {len(set(sizes))} different"
        raise BadProfile(source.input, reason, f"give up to {LIMITS.profiles} different profiles")
    for height, width in sizes:
        if not (1 <= height <= LIMITS.extent and 1 <= width <= LIMITS.extent):
            reason = f"profile {height}x{width}"
            raise BadProfile(source.input, reason, f"use extents of 1 to {LIMITS.extent}")
    return list(sizes)


def _check_targets(targets: Sequence[str]) -> None:
    if not 1 <= len(targets) <= LIMITS.targets or len(set(targets)) != len(targets):
        raise CompileError("targets", f"{list(targets)}", f"give 1 to {LIMITS.targets} different targets")
    for target in targets:
        try:
            load_spec(target)
        except UnknownTarget as error:
            raise CompileError("targets", str(error), "give one of these") from error


def _target_pieces(
    build: str, target: str, programs: Mapping[str, CompiledProgram], reports: Mapping[str, ProgramReport]
) -> dict[str, bytes]:
    return {
        **{f"{target}/{name}.npu": program.data for name, program in programs.items()},
        f"{target}/memory_map.json": pieces.memory_map(build, target, programs),
        f"{target}/kernel_metadata.json": pieces.kernel_metadata(build, target, programs, reports),
        f"{target}/profile_baseline.csv": pieces.profile_baseline(target, programs),
    }


def _build_id(
    model: bytes,
    quality: bytes | None,
    observer: bytes | None,
    targets: Sequence[str],
    sizes: Sequence[str],
    meta: Mapping[str, object],
    release_version: str,
    security_epoch: int,
) -> bytes:
    digest = hashlib.sha256()
    facts = [COMPILER_VERSION, list(targets), list(sizes), dict(meta), release_version, security_epoch]
    for part in (model, quality, observer, json.dumps(facts, sort_keys=True, default=str).encode()):
        digest.update(hashlib.sha256(part).digest() if part is not None else b"-")
    return digest.digest()[:16]
