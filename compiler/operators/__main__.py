"""``python -m compiler.operators --write | --check [FILE]``: the manual, written or compared."""

from __future__ import annotations

import sys
from pathlib import Path

from compiler.operators.manual import manual

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "operators.md"


def main(arguments: list[str]) -> int:
    """0 when written or equal, 1 when the page differs, 2 for a wrong call."""
    if not arguments or arguments[0] not in ("--write", "--check") or len(arguments) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    page = Path(arguments[1]) if len(arguments) == 2 else PAGE
    text = manual()
    if arguments[0] == "--write":
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page}: differs from the support checks; run python -m compiler.operators --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
