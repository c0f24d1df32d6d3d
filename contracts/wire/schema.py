"""Write or check the JSON schema of every message: `python -m contracts.wire.schema --write | --check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import contracts.wire as wire

PATH = Path(__file__).resolve().parents[2] / "docs" / "reference" / "wire.schema.json"


def schema() -> str:
    """Return the schema of all public messages as stable text."""
    exported = (getattr(wire, name) for name in sorted(wire.__all__))
    models: list[tuple[type[BaseModel], Any]] = [  # Any: pydantic's schema mode
        (found, "validation") for found in exported if isinstance(found, type) and issubclass(found, BaseModel)
    ]
    _, definitions = models_json_schema(models, title="EdgeLoop wire messages")
    return json.dumps(definitions, indent=1, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    """Command line; exit 1 when the committed schema is not the generated one."""
    if arguments == ["--write"]:
        PATH.write_text(schema())
        return 0
    if PATH.exists() and PATH.read_text() == schema():
        return 0
    print(f"{PATH.name} is out of date; run `make docs` and commit it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
