"""Client of another service's API: token, trace id, bounded retries, problems as exceptions.

ServiceError                 base
├── ServiceUnreachable       no answer after all tries; try again later
└── ServiceRefused           an answer of 4xx or 5xx, with its problem document
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import SecretStr

from services.kit.limits import CLIENT
from services.kit.tracing import traceparent

RETRIED = frozenset({429, 502, 503, 504})


class ServiceError(Exception):
    """A call to a service did not work."""


class ServiceUnreachable(ServiceError):
    """No answer came, after all tries."""


class ServiceRefused(ServiceError):
    """The service answered with a problem. `status` and `problem` (the document) say which."""

    def __init__(self, method: str, url: str, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{method} {url} answered {status}: {problem.get('detail') or problem.get('title') or ''}")
        self.status = status
        self.problem = problem


class ServiceClient:
    """Calls `base_url` with a bearer token. Use as a context manager, or `close()` it.

    A request is tried again when no answer came or the service was busy (429, 502-504). A POST is tried again only
    with an idempotency key, or when the connection was never made.
    """

    def __init__(self, base_url: str, token: str | SecretStr, transport: httpx.BaseTransport | None = None) -> None:
        secret = token.get_secret_value() if isinstance(token, SecretStr) else token
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {secret}"},
            timeout=httpx.Timeout(CLIENT.read_s, connect=CLIENT.connect_s),
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, **params: str | int | float | bool | None) -> Any:  # Any: JSON
        """GET and parse; None parameters are left out."""
        given = {key: value for key, value in params.items() if value is not None}
        return self.request("GET", path, params=given).json()

    def post(self, path: str, body: Any = None, *, idempotency_key: str | None = None) -> Any:  # Any: JSON
        """POST a JSON body and parse the answer (None when it is empty)."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        answer = self.request("POST", path, json=body, headers=headers)
        return answer.json() if answer.content else None

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:  # Any: httpx's own options
        """Any request, with the retries; raises ServiceUnreachable or ServiceRefused."""
        headers = {"traceparent": traceparent(), **(options.pop("headers", None) or {})}
        repeatable = method in {"GET", "HEAD", "PUT", "DELETE"} or "Idempotency-Key" in headers
        for attempt in range(CLIENT.tries):
            last = attempt == CLIENT.tries - 1
            try:
                answer = self._http.request(method, path, headers=headers, **options)
            except httpx.TransportError as error:
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if last or not (repeatable or never_sent):
                    raise ServiceUnreachable(f"{method} {path}: {error or type(error).__name__}") from error
                time.sleep(_pause(attempt, None))
                continue
            if answer.is_success or answer.status_code == 304:
                return answer
            if last or not repeatable or answer.status_code not in RETRIED:
                raise ServiceRefused(method, path, answer.status_code, _problem(answer))
            time.sleep(_pause(attempt, answer.headers.get("Retry-After")))
        raise AssertionError("unreachable: the last try returns or raises")


def _pause(attempt: int, retry_after: str | None) -> float:
    wanted = float(retry_after) if retry_after and retry_after.isdigit() else CLIENT.first_pause_s * 2**attempt
    return min(CLIENT.longest_pause_s, wanted)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {"title": answer.reason_phrase}
    return document if isinstance(document, dict) else {"title": answer.reason_phrase}
