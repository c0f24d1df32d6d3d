"""Nothing is served that the fuzzer and the matrix of callers do not see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from services.app import build_app
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.routes import operations
from tests.api.documents import PARTS, document_of, operations_of, part_of, route_list

ROOT = Path(__file__).resolve().parents[2]
MAKERS = {"FastAPI", "Starlette", "HTTPServer", "ThreadingHTTPServer", "start_http_server", "make_server", "TCPServer"}
KNOWN = {
    "services/kit/app.py": "the one maker of applications; every service goes through it",
    "services/kit/metrics.py": "Prometheus' own server on a port of its own: tests/operations/test_metrics.py",
}


def test_every_operation_that_is_served_is_fuzzed() -> None:
    served = {(operation.method, _plain(operation.path)) for operation in route_list()}
    covered = {(method, _plain(path)) for part in PARTS for method, path in operations_of(document_of(part))}
    assert served == covered


@pytest.mark.parametrize("service", [*SERVICES, DASHBOARD])
def test_a_service_that_runs_alone_serves_nothing_else(service: str) -> None:
    alone = {(one.method, one.path) for one in operations(build_app((service,))) if part_of(one.path) == service}
    together = {(one.method, one.path) for one in route_list() if part_of(one.path) == service}
    assert alone == together
    assert alone


def test_no_other_server_is_made_anywhere() -> None:
    found = set()
    for part in ("services", "edge_agent", "embedded", "flows", "demo", "edgeloop", "compiler", "contracts"):
        for path in (ROOT / part).rglob("*.py"):
            calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            names = {getattr(call, "id", getattr(call, "attr", "")) for call in calls}
            if names & MAKERS:
                found.add(str(path.relative_to(ROOT)))
    assert found == set(KNOWN)


def test_every_published_operation_has_a_schema_of_its_answer() -> None:
    """An answer without a schema cannot be checked: each says what it is made of, or that it is a file."""
    items = [pair for service in SERVICES for pair in document_of(service)["paths"].items()]
    for path, item in items:
        for method, operation in item.items():
            good = [answer for status, answer in operation["responses"].items() if str(status).startswith("2")]
            assert good, f"{method.upper()} {path} declares no answer of success"


def _plain(path: str) -> str:
    return path.replace(":path}", "}")
