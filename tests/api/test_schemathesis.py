"""Every operation of every service under schemathesis, over a real socket, with real PostgreSQL and Redis: no 5xx, and
no answer that breaks its own schema.

Seeds are fixed. `EDGELOOP_FUZZ_EXAMPLES=400` tries more of each operation, `EDGELOOP_FUZZ_SEED=7` others, and
`EDGELOOP_FUZZ_SECONDS` bounds a part's time (see CONTRIBUTING.md). Half of the cases fit the schema, half do not; path
parameters are mostly things that exist.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from structlog.testing import capture_logs

from services.dashboard.sessions import COOKIE
from services.kit.auth import DEVICE_SCOPES
from services.kit.discovery import DASHBOARD
from tests.api.conftest import Site, csrf_of
from tests.api.documents import PARTS, document_of, route_list

EXAMPLES = int(os.environ.get("EDGELOOP_FUZZ_EXAMPLES", "8"))
SECONDS = float(os.environ.get("EDGELOOP_FUZZ_SECONDS", "60" if EXAMPLES <= 8 else "3600"))
SEED = int(os.environ.get("EDGELOOP_FUZZ_SEED", "20261130"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
BOUNDED = hypothesis_settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
SCOPES = {(one.method, one.path.replace(":path}", "}")): one.scope for one in route_list()}


@pytest.mark.parametrize("part", PARTS)
def test_no_operation_fails_or_breaks_its_schema(site: Site, part: str) -> None:
    load_all_checks()
    schema = schemathesis.openapi.from_dict(document_of(part))
    found, tried, ends = list[str](), 0, time.monotonic() + SECONDS
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in MODES:
            with capture_logs():
                found += _attack(site, operation, mode, ends)
            tried += 1
    assert tried
    assert not found, f"{len(found)} operations of {part}:\n" + "\n\n".join(found)


def _attack(site: Site, operation: Any, mode: GenerationMode, ends: float) -> Iterator[str]:  # Any: untyped library
    """One line or so about what went wrong first with an operation; nothing when all was well."""
    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except Exception as error:  # whatever the library raises, the operation was not tried
        yield f"{operation.label} ({mode.value}): no cases: {error!r}"
        return
    caller, problems, tried = _caller(site, operation), dict[str, str](), list[int]()

    @seed(SEED)
    @BOUNDED
    @given(case=strategy, known=st.integers(0, 3), index=st.integers(0, 3))
    def attempt(case: Any, known: int, index: int) -> None:  # Any: untyped library
        tried.append(known)
        if len(tried) > 1 and time.monotonic() > ends:
            return
        for name in case.path_parameters or {}:
            if known and name in site.known:
                case.path_parameters[name] = site.known[name][index % len(site.known[name])]
        if isinstance(case.body, dict) and "csrf" in case.body and known:
            case.body["csrf"] = caller["csrf"]
        try:
            with requests.Session() as session:
                session.trust_env = False
                answer = case.call(
                    site.url,
                    session=session,
                    headers=caller["headers"],
                    cookies=caller["cookies"],
                    allow_redirects=False,
                    timeout=300,
                )
            case.validate_response(answer, checks=CHECKS)
        except (Failure, FailureGroup) as error:
            failures = error.exceptions if isinstance(error, FailureGroup) else [error]
            for failure in failures:
                title = f"{operation.label} ({mode.value}): {type(failure).__name__}"
                problems.setdefault(title, f"{title}: {failure}\n{case.as_curl_command()[:1500]}")

    try:
        attempt()
    except Unsatisfiable:
        if mode is GenerationMode.POSITIVE:  # else any text is a good name, and there is nothing to get wrong
            problems["cases"] = f"{operation.label}: no case fits its schema"
    except Exception as error:  # a failure of the library itself is told with the operation that it came from
        problems.setdefault("error", f"{operation.label} ({mode.value}): {error!r}")
    yield from problems.values()


def _caller(site: Site, operation: Any) -> dict[str, Any]:  # Any: untyped library, JSON
    """The headers and cookies of somebody who may do this."""
    if operation.path in _CONSOLE_PATHS:
        body = {"browser": "fuzzer"}
        made = site.request("POST", "/identity/v1/token-sessions", site.operator, json=body).json()
        headers = {"Origin": site.url, "Sec-Fetch-Site": "same-origin"}
        return {"headers": headers, "cookies": {COOKIE: made["token"]}, "csrf": csrf_of(made["token"])}
    scope = SCOPES.get((operation.method.upper(), operation.path))
    token = site.device if scope in DEVICE_SCOPES else site.operator
    return {"headers": {"Authorization": f"Bearer {token}"}, "cookies": {}, "csrf": ""}


_CONSOLE_PATHS = frozenset(document_of(DASHBOARD)["paths"])
