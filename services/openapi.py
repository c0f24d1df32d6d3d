"""`python -m services.openapi --write|--check`: the committed OpenAPI documents, one a service.

`--check` leaves with 1 and names the documents that differ from what the code would generate.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from services.app import body_limits
from services.kit.app import make_app, openapi
from services.kit.discovery import SERVICES, part

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "openapi"


def documents() -> dict[str, str]:
    """File name -> generated document, for every service that has an API."""
    found = {}
    for service in SERVICES:
        api = part(service, "api")
        if api is not None:
            app = make_app(f"EdgeLoop {service}", [api.router], f"/{service}", body_limits((service,)))
            found[f"{service}.json"] = json.dumps(openapi(app), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return found


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of the committed documents that are missing, different or left over."""
    wanted = documents()
    committed = {path.name: path.read_text() for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | committed.keys() if wanted.get(name) != committed.get(name))


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    if parser.parse_args().write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, text in documents().items():
            (FOLDER / name).write_text(text)
        return 0
    differing = stale()
    for name in differing:
        remedy = "run: python -m services.openapi --write"
        print(f"{FOLDER / name} is not what the code generates; {remedy}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
