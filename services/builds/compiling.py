"""Runs the compiler in a process of its own, so that a strange model can neither hang a worker nor bring it down.

The child (`python -m services.builds.compiling FOLDER`) reads `request.json` and the three inputs in FOLDER, writes
`out.elb` and `outcome.json`, and touches nothing else. Three ends: compiled, refused (the model's fault: node, reason,
remedy), or `CompilerBroke` (ours: time limit, crash, internal error).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from compiler.driver import compile_bundle
from compiler.errors import CompileError, InternalError
from compiler.options import CompileOptions
from contracts.wire import BuildRequest
from services.builds.limits import WORK

REQUEST, OUTCOME, BUNDLE = "request.json", "outcome.json", "out.elb"
INPUTS = ("model", "quality", "observer")
LAST_WORDS = 600


class CompilerBroke(Exception):
    """The compiler did not come to an answer; the message says what happened."""


@dataclass(frozen=True)
class Compiled:
    """A bundle was written."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True)
class Refused:
    """The model cannot be compiled, and why."""

    node: str
    reason: str
    remedy: str


def compile_in_child(
    folder: Path, request: BuildRequest, inputs: Mapping[str, bytes], timeout_s: float = WORK.compile_s
) -> Compiled | Refused:
    """Compile `inputs` (model, quality, observer) in the empty `folder`; raises CompilerBroke."""
    (folder / REQUEST).write_text(request.model_dump_json())
    for name in INPUTS:
        (folder / name).write_bytes(inputs[name])
    command = [sys.executable, "-m", "services.builds.compiling", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(command, capture_output=True, timeout=timeout_s, env=environment, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompilerBroke(f"the compiler was ended after {timeout_s:g} s; give fewer or smaller profiles") from error
    if not (folder / OUTCOME).exists():
        words = ended.stderr.decode(errors="replace").strip()[-LAST_WORDS:]
        raise CompilerBroke(f"the compiler ended with status {ended.returncode} and no answer: {words}")
    return _outcome(folder)


def _outcome(folder: Path) -> Compiled | Refused:
    answer = json.loads((folder / OUTCOME).read_text())
    if answer["kind"] == "compiled":
        return Compiled(folder / BUNDLE, answer["digest"], answer["size"])
    refused = Refused(answer["node"], answer["reason"], answer["remedy"])
    if answer["kind"] == "internal":
        raise CompilerBroke(f"{refused.node}: {refused.reason}; {refused.remedy}")
    return refused


def main(folder: Path) -> None:
    """The child: compile and write the outcome."""
    request = BuildRequest.model_validate_json((folder / REQUEST).read_text())
    outcome = _compile(folder, request)
    part = folder / f"{OUTCOME}.part"
    part.write_text(json.dumps(outcome))
    part.replace(folder / OUTCOME)


def _compile(folder: Path, request: BuildRequest) -> dict[str, object]:
    model, quality, observer = ((folder / name).read_bytes() for name in INPUTS)
    try:
        report = compile_bundle(
            model,
            quality,
            observer,
            request.targets,
            request.profiles,
            {"name": request.name, "lineage": dict(sorted(request.lineage.items()))},
            folder / BUNDLE,
            request.release_version,
            request.security_epoch,
            options=CompileOptions(little=request.little, entropy=request.entropy),
        )
    except CompileError as error:
        kind = "internal" if isinstance(error, InternalError) else "refused"
        return {"kind": kind, **asdict(Refused(error.node, error.reason, error.remedy))}
    return {"kind": "compiled", "digest": report.digest, "size": report.size}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
