"""The embedded platform: start everything, keep it running, stop it in order.

    with Platform(Path(".edgeloop"), 8080) as platform:
        platform.info.base_url, platform.info.operator_token

Invariants: one supervisor a folder (lock); all state is in that folder, so the next start goes on where this one
ended; a child that dies is started again; `stop()` leaves no process behind, and neither does a killed supervisor
once the next one starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from embedded.child import ChildState, end_leftovers
from embedded.errors import ChildFailed, EmbeddedError
from embedded.limits import LIMITS
from embedded.plan import CHILDREN, OPTIONAL, STOP_ORDER, Plan, has_flows
from embedded.ports import demand_free
from embedded.state import PlatformInfo, StateFolder
from embedded.watch import Watch

DATABASES = ("edgeloop", "mlflow")

Say = Callable[[str], None]


class Platform:
    """A platform on this machine. `without` names optional children to leave out; `environment` is for the children.

    `asked` says whether somebody asked to end meanwhile; a start looks at it and is given up.
    """

    def __init__(
        self,
        state_dir: Path,
        port: int = 8080,
        *,
        without: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
        say: Say = lambda line: None,
        asked: Callable[[], bool] = lambda: False,
    ) -> None:
        unknown = set(without) - OPTIONAL
        if unknown:
            raise EmbeddedError(f"cannot leave out {sorted(unknown)}; only {', '.join(sorted(OPTIONAL))}")
        self.folder = StateFolder(state_dir)
        self._port = port
        self._without = frozenset(without) | (frozenset() if has_flows() else {"flows"})
        self._environment = dict(environment or {})
        self._listener = say
        self._asked = asked
        self._plan: Plan | None = None
        self._watch: Watch | None = None
        self._noting = threading.Lock()

    @property
    def info(self) -> PlatformInfo:
        """Urls, ports and tokens of the running platform."""
        return self._running_plan().info

    @property
    def children(self) -> dict[str, dict[str, Any]]:  # Any: JSON
        """State, pid and number of restarts of each child."""
        watch = self._watch
        return {} if watch is None else {name: child.describe() for name, child in list(watch.children.items())}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> PlatformInfo:
        """Start everything and wait until it is ready. On failure nothing is left running."""
        self.folder.acquire()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self.info

    def stop(self) -> None:
        """End every child in order and give the folder back. May be called twice."""
        if self._watch is not None:
            self._watch.stop(STOP_ORDER)
            self._watch = None
        self.folder.release()

    def kill(self, name: str) -> None:
        """`kill -9` a child, as a crash would, and return when the watch has noticed."""
        if self._watch is None or name not in self._watch.children:
            raise EmbeddedError(f"there is no child {name!r}; there are: {', '.join(self.children) or 'none'}")
        child = self._watch.children[name]
        before, deadline = child.restarts, time.monotonic() + LIMITS.stop_s
        child.kill()
        while child.restarts == before and time.monotonic() < deadline:
            time.sleep(LIMITS.poll_s / 2)

    def wait_ready(self, name: str) -> float:
        """Wait until a child is ready (again); returns the seconds."""
        if self._watch is None:
            raise EmbeddedError("the platform does not run")
        return self._watch.wait_ready(name)

    def say(self, line: str) -> None:
        """Write a line to `logs/supervisor.log` and tell the listener."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError), (self.folder.logs / "supervisor.log").open("a") as log:
            log.write(json.dumps({"timestamp": stamp, "event": line}) + "\n")
        self._listener(line)

    def _start(self) -> None:
        begun = time.monotonic()
        leftovers = end_leftovers(self.folder.children().get("children", {}))
        if leftovers:
            self.say(f"ended what a killed platform left behind: {', '.join(leftovers)}")
        demand_free(self._port)
        plan = self._plan = Plan(self.folder, self.folder.plan(self._port), self._environment)
        self.folder.save(plan.info)
        watch = self._watch = Watch(self.folder.logs, self.folder.root, self.say, self._note_children, self._asked)
        watch.begin()
        with ThreadPoolExecutor(max_workers=len(CHILDREN)) as pool:
            try:
                self._start_in_parallel(plan, watch, pool)
            except BaseException:
                watch.give_up()  # or the pool would wait for the children that still start
                raise
        self._add_enrolment_token(plan)
        for name in self._wanted("flows"):
            self._bring_up(watch, plan, name)
        self.say(f"platform ready on {plan.info.base_url} after {time.monotonic() - begun:.1f} s")

    def _start_in_parallel(self, plan: Plan, watch: Watch, pool: ThreadPoolExecutor) -> None:
        early = [pool.submit(self._bring_up, watch, plan, name) for name in self._wanted("redis", "prefect")]
        self._start_postgres(plan, watch)
        early += [pool.submit(self._bring_up, watch, plan, name) for name in self._wanted("mlflow")]
        tokens = self._prepare(plan)
        plan.info = replace(plan.info, operator_token=tokens["operator_token"], service_token=tokens["service_token"])
        self.folder.save(plan.info)
        late = [pool.submit(self._bring_up, watch, plan, name) for name in self._wanted("api", "worker", "beat")]
        for future in as_completed([*early, *late]):
            future.result()

    def _start_postgres(self, plan: Plan, watch: Watch) -> None:
        """PostgreSQL, with all databases."""
        if plan.postgres.create():
            self.say("made a new PostgreSQL cluster")
        self._bring_up(watch, plan, "postgres")
        for database in DATABASES:
            plan.postgres.add_database(database)

    def _bring_up(self, watch: Watch, plan: Plan, name: str) -> None:
        watch.add(plan.spec(name))
        watch.wait_ready(name)

    def _wanted(self, *names: str) -> Iterable[str]:
        return (name for name in names if name not in self._without)

    def _prepare(self, plan: Plan) -> dict[str, str]:
        """Migrate the database and get the staff tokens, in a process of its own."""
        known = {"operator_token": plan.info.operator_token, "service_token": plan.info.service_token}
        done = subprocess.run(
            [sys.executable, "-m", "services.prepare"],
            input=json.dumps(known),
            capture_output=True,
            text=True,
            timeout=LIMITS.ready_s,
            check=False,
            env=plan.environment(),
            cwd=self.folder.root,
        )
        if done.returncode != 0:
            raise ChildFailed(f"the database could not be migrated:\n{done.stderr[-2000:]}")
        tokens: dict[str, str] = json.loads(done.stdout)
        return tokens

    def _add_enrolment_token(self, plan: Plan) -> None:
        """Ask the release service for a token that lets this machine's devices join; keep it for the next runs."""
        answer = httpx.post(
            f"{plan.info.base_url}/releases/v1/enrolment-tokens",
            json={"uses": LIMITS.enrolments, "ttl_s": LIMITS.enrolment_ttl_s},
            headers={"Authorization": f"Bearer {plan.info.operator_token}"},
            timeout=30,
            trust_env=False,
        )
        if not answer.is_success:
            self.say(f"no enrolment token: the release service answered {answer.status_code}")
            return
        plan.info = replace(plan.info, enrolment_token=answer.json()["token"])
        self.folder.save(plan.info)

    def _note_children(self) -> None:
        """Rewrite `children.json`; without a running child it says so."""
        with self._noting:
            children = self.children
            running = any(entry["state"] != ChildState.STOPPED for entry in children.values())
            self.folder.save_children({"supervisor": os.getpid() if running else None, "children": children})

    def _running_plan(self) -> Plan:
        if self._plan is None:
            raise EmbeddedError("the platform was not started")
        return self._plan
