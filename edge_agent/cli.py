"""`edgeloop agent`: run one agent or a fleet, join a platform, look at a device's state, serve the lab
protocol.

Exit status: 0 done, 1 the source or the platform failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from contracts.clock import Clock, clock_from_environment
from contracts.device import DeviceTags
from edge_agent.compose import agent_from, join
from edge_agent.config import AgentConfig, load_config, parse
from edge_agent.diagnostics import ask, of_folder, package, platform_key
from edge_agent.disk import Disk
from edge_agent.engines import Memo, RunnerLoader, RunnerPlayback
from edge_agent.enrol import load_identity
from edge_agent.errors import AgentError, ConfigError, EnrolmentError, PlatformError, VideoError
from edge_agent.exposition import exposition
from edge_agent.fleet.config import FleetConfig, GroupConfig, load_fleet
from edge_agent.fleet.run import Fleet
from edge_agent.key_rotation import rotate_key
from edge_agent.lab import lab
from edge_agent.report import device_report, report_table
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu import Faults
from edge_agent.runtime.npu.climate import ClimateModel
from edge_agent.runtime.npu.trace_command import kernel_trace
from edge_agent.session import Session, sole_owner
from edge_agent.stages import stage_events
from edge_agent.steady import steady
from edge_agent.tee.client import TeeProcess
from edge_agent.transport import Transport, make_client
from edge_agent.watermark import Marker, WatermarkError
from edge_agent.watermark.code import read_key

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="The agent on a device: play video through the NPU, notice weak spots, keep the bundle current.",
)
app.command("lab")(lab)
app.command("kernel-trace")(kernel_trace)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="JSON file; flags override it.")]
StateDir = Annotated[Path | None, typer.Option("--state-dir", help="Folder of this device's state.")]
PlatformUrl = Annotated[str | None, typer.Option("--platform-url", help="Address of the platform.")]
TokenOption = Annotated[str | None, typer.Option("--token", help="One-time enrolment token.")]
DeviceClass = Annotated[str | None, typer.Option("--device-class", help="npu-4t or npu-2t.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="NAME=VALUE, several times.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log what happens.")]


@app.command(
    epilog="Example: edgeloop agent run --state-dir device1 --factory-bundle base.elb --source talk.mp4 "
    "--output out.mp4 --platform-url http://127.0.0.1:8080 --token TOKEN"
)
def run(
    config: ConfigOption = None,
    source: Annotated[str | None, typer.Option(help="File, rtsp:// address, /dev/videoN, schedule.")] = None,
    state_dir: StateDir = None,
    factory_bundle: Annotated[Path | None, typer.Option(help="The built-in bundle (*.elb).")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the composed video here (mp4).")] = None,
    platform_url: PlatformUrl = None,
    token: TokenOption = None,
    device_class: DeviceClass = None,
    tag: TagOption = None,
    loop: Annotated[bool | None, typer.Option("--loop/--once", help="Play the file again and again.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frames a second; 0 as fast as possible.")] = None,
    max_frames: Annotated[int | None, typer.Option(help="Stop after so many frames.")] = None,
    backend: Annotated[str | None, typer.Option(help="npu or onnxruntime.")] = None,
    faults: Annotated[str | None, typer.Option(help="Faults of the emulated device, JSON.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace of the last frames here.")] = None,
    as_json: JsonOption = False,
    verbose: Verbose = False,
) -> None:
    """Play a video through the model, frame by frame, and keep the bundle current."""
    with _clean_exit():
        _logging(verbose)
        chosen = load_config(
            config,
            source=source,
            state_dir=state_dir,
            factory_bundle=factory_bundle,
            output=output,
            platform_url=platform_url,
            enrolment_token=token,
            tags=_tags(device_class, tag),
            loop=loop,
            fps=fps,
            max_frames=max_frames,
            backend=backend,
            faults=_json_object(faults, "--faults"),
        )
        status = _run(chosen, trace, quiet=as_json)
        _print(status, as_json)


@app.command(epilog="Example: edgeloop agent fleet --config fleet.json (see docs/how-to/device-teams.md)")
def fleet(
    config: Annotated[Path, typer.Option("--config", help="Fleet file, JSON.")],
    seconds: Annotated[float | None, typer.Option(help="Stop after so many real seconds.")] = None,
    as_json: JsonOption = False,
    verbose: Verbose = False,
) -> None:
    """Run hundreds of light agents in one process, until SIGTERM or Ctrl-C."""
    with _clean_exit():
        _logging(verbose)
        if not verbose:  # a faulty class of devices would log every frame that the CPU had to serve
            logging.getLogger("edge_agent.runtime.runner").setLevel(logging.ERROR)
        chosen = load_fleet(config)
        clock = clock_from_environment()
        stop = threading.Event()
        if seconds is not None:
            timer = threading.Timer(seconds, stop.set)
            timer.daemon = True
            timer.start()
        with sole_owner(chosen.state_dir), _stopped_by_signals(stop):
            running = Fleet(chosen, clock, _fleet_loader(chosen, clock))
            running.run(stop)
        _print(running.status(), as_json)


@app.command(epilog="Example: edgeloop agent enrol --state-dir device1 --platform-url URL --token TOKEN")
def enrol(
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Folder of this device's state.")],
    platform_url: Annotated[str, typer.Option("--platform-url", help="Address of the platform.")],
    token: Annotated[str, typer.Option("--token", help="One-time enrolment token.")],
    device_class: Annotated[str, typer.Option("--device-class", help="npu-4t or npu-2t.")] = "npu-4t",
    tag: TagOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join a platform: a one-time token buys an identity and the roots of trust."""
    with _clean_exit():
        tags = parse(DeviceTags, _tags(device_class, tag) or {}, "--tag")
        with sole_owner(state_dir), make_client() as client:
            identity = join(state_dir, Transport(platform_url, client), token, tags, Disk())
        _print({"device_id": identity.device_id, "state_dir": str(state_dir)}, as_json)


@app.command("rotate-key", epilog="Example: edgeloop agent rotate-key --state-dir device1 --platform-url URL")
def rotate_key_command(
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Folder of this device's state.")],
    platform_url: Annotated[str, typer.Option("--platform-url", help="Address of the platform.")],
    as_json: JsonOption = False,
) -> None:
    """Take a new device key: the platform gets proof of the old one and of the new one, then the old one is gone."""
    with _clean_exit():
        identity = load_identity(state_dir)
        if identity is None:
            raise EnrolmentError(f"{state_dir} never joined: run `edgeloop agent enrol` first")
        with sole_owner(state_dir), make_client() as client:
            transport = Transport(platform_url, client, identity.access_token)
            public = rotate_key(state_dir, transport, identity, Disk())
        _print({"device_id": identity.device_id, "public_key": public}, as_json)


@app.command(epilog="Example: edgeloop agent status --state-dir device1 --json")
def status(
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Folder of this device's state.")],
    as_json: JsonOption = False,
) -> None:
    """Show a device: what runs, both slots, what waits to be sent, why it rolled back."""
    with _clean_exit():
        report = device_report(state_dir)
        if as_json:
            typer.echo(json.dumps(report, indent=2))
        else:
            Console().print(report_table(report))


@app.command("metrics", epilog="Example: edgeloop agent metrics --state-dir d1 --output node/edgeloop.prom")
def metrics(
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Folder of this device's state.")],
    output: Annotated[Path | None, typer.Option(help="File to replace; default standard output.")] = None,
) -> None:
    """Write a device's state in Prometheus's text format, for the textfile collector of its node exporter."""
    with _clean_exit():
        text = exposition(device_report(state_dir))
        if output is None:
            typer.echo(text, nl=False)
        else:
            Disk().replace(output, text.encode())


@app.command(epilog="Example: edgeloop agent diagnose --state-dir device1 --key diagnostics.pub --out device1.elg")
def diagnose(
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Folder of this device's state.")],
    key: Annotated[str, typer.Option("--key", help="The platform's public diagnostics key: base64, or a file.")],
    out: Annotated[Path, typer.Option("--out", help="Write the encrypted package here.")],
    wait: Annotated[float, typer.Option(min=1, max=600, help="Seconds that a running agent may take.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Make one encrypted file with versions, slots, causes, memory map and the last frames' trace; no pixels, no
    secrets.

    A running agent is asked; of a stopped one the file holds what its disk knows, without a trace.
    """
    with _clean_exit():
        raw = platform_key(key)
        if not state_dir.is_dir():
            raise ConfigError(f"no device state at {state_dir}; give the --state-dir of an agent")
        running = True
        try:
            with sole_owner(state_dir):
                running = False
                data = package(of_folder(state_dir), raw, None)
        except ConfigError:
            if not running:
                raise
            data = ask(state_dir, raw, wait)
        Disk().replace(out, data, 0o600)
        _print({"package": str(out), "bytes": len(data), "running": running}, as_json)


def _run(config: AgentConfig, trace: Path | None, quiet: bool) -> dict[str, object]:
    clock = clock_from_environment()
    with sole_owner(config.state_dir), make_client() as client:
        transport = Transport(config.platform_url, client) if config.platform_url else None
        agent = agent_from(config, clock, _loader(config, clock), transport)
        identity = load_identity(config.state_dir)
        device_id = identity.device_id if identity else ""
        session = Session(agent, config.state_dir, config.fps, config.max_frames, config.sync_s, device_id)
        try:
            with _stopped_by_signals(session.stop), _progress(quiet) as tell, steady():
                status = session.run(tell)
        finally:
            if isinstance(agent.tee, TeeProcess):
                agent.tee.close()
        if trace is not None and isinstance(agent.playback, RunnerPlayback):
            stages = stage_events(agent.conveyor.traces.frames()) if agent.conveyor else ()
            trace.write_text(agent.playback.runner.trace.chrome_json(more=stages))
        return status


def _loader(config: AgentConfig, clock: Clock) -> RunnerLoader:
    try:
        faults = Faults.from_mapping(config.faults)
    except ValueError as error:
        raise ConfigError(f"setting faults: {error}") from error
    climate = ClimateModel(**config.climate.model_dump()) if config.climate else None
    frame_s = 1 / config.fps if config.fps else 0.0
    options = BackendOptions(faults, config.seed, climate=climate, frame_s=frame_s, marker=_marker(config))
    return RunnerLoader(config.tags.device_class, clock, config.backend, options, config.health.budget_ms)


def _marker(config: AgentConfig) -> Marker | None:
    if config.watermark is None:
        return None
    try:
        key = read_key(config.watermark.key_file)
    except WatermarkError as error:
        raise ConfigError(f"setting watermark.key_file: {error}") from error
    return Marker(config.watermark.batch, key)


def _fleet_loader(config: FleetConfig, clock: Clock) -> Callable[[GroupConfig, Faults, int], RunnerLoader]:
    memo = Memo(config.memo_megabytes * 1_000_000) if config.memo_megabytes else None

    def make(group: GroupConfig, faults: Faults, seed: int) -> RunnerLoader:
        options = BackendOptions(faults, seed, shared=True)
        budget = config.health.budget_ms
        return RunnerLoader(group.tags.device_class, clock, group.backend, options, budget, memo)

    return make


def _tags(device_class: str | None, pairs: list[str] | None) -> dict[str, str] | None:
    tags = {"device_class": device_class} if device_class else {}
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not separator or name not in DeviceTags.model_fields:
            known = ", ".join(DeviceTags.model_fields)
            raise ConfigError(f"--tag {pair}: give NAME=VALUE with one of {known}")
        tags[name] = value
    return tags or None


def _json_object(text: str | None, option: str) -> dict[str, Any] | None:  # Any: JSON values
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{option} must be a JSON object")
    return value


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C set `stop`; the handlers before come back at the end."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda frames: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed} frames"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("play", total=None)
        yield lambda frames: progress.update(task, completed=frames)


@contextmanager
def _clean_exit() -> Iterator[None]:
    """Turn errors that a person can act on into one line and an exit status."""
    try:
        yield
    except (VideoError, PlatformError) as error:
        typer.echo(f"edgeloop agent: {error}", err=True)
        raise typer.Exit(EXIT_FAILED) from error
    except AgentError as error:
        typer.echo(f"edgeloop agent: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    except OSError as error:
        typer.echo(f"edgeloop agent: {error}; check the path and free space", err=True)
        raise typer.Exit(EXIT_FAILED) from error


def _print(values: dict[str, object], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(values, indent=2))
    else:
        Console().print(report_table(values))


def _logging(verbose: bool) -> None:
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("tuf").setLevel(logging.ERROR)
    logging.getLogger("libav").setLevel(logging.CRITICAL)
