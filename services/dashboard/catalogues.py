"""`python -m services.dashboard.catalogues --write|--check`: the catalogues of translations, kept equal to the texts.

`--write` reads every text of code and templates into each `locale/*.po`, keeps the translations that are there and
drops what is no longer said. `--check` leaves with 1 and names what is missing, not translated or left over.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from services.dashboard.languages import DEFAULT, LANGUAGES
from services.dashboard.words import said

HERE = Path(__file__).resolve().parent
DAY = datetime(2026, 11, 30, tzinfo=UTC)  # fixed, so that the same texts make the same file
FOLDER = HERE / "locale"
METHODS = [("**.py", "python"), ("templates/**.html", "jinja2")]
OPTIONS = {"templates/**.html": {"trimmed": "true", "newstyle_gettext": "true"}}
KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2), "marked": None}


def texts() -> Iterator[str | tuple[str, ...]]:
    """Every text that the page may say, in the order of the files."""
    found = extract_from_dir(HERE, METHODS, OPTIONS, KEYWORDS)
    yield from (message for _, _, message, _, _ in sorted(found, key=lambda item: (item[0], item[1])))
    yield from said()


def wanted(language: str) -> Catalog:
    """The catalogue of a language with every text, translated where the committed one has it."""
    known = _committed(language) if _file(language).exists() else None
    made = Catalog(
        locale=language,
        project="EdgeLoop",
        version="console",
        msgid_bugs_address="",
        last_translator="EdgeLoop",
        language_team=language,
        creation_date=DAY,
        revision_date=DAY,
        fuzzy=False,
        header_comment="# Texts of the console; python -m services.dashboard.catalogues --write",
    )
    for text in texts():
        old = known.get(text) if known is not None else None
        made.add(text, old.string if old is not None else "")
    return made


def faults(language: str) -> list[str]:
    """What is wrong with the committed catalogue."""
    if not _file(language).exists():
        return [f"{language}: there is no catalogue"]
    committed = _committed(language)
    expected = {message.id: message for message in wanted(language) if message.id}
    present = {message.id for message in committed if message.id}
    missing = [f"{language}: missing: {text!r}" for text in expected if text not in present]
    left = [f"{language}: no longer said: {text!r}" for text in present if text not in expected]
    blank = [f"{language}: not translated: {text!r}" for text, message in expected.items() if not message.string]
    return [*missing, *left, *(fault for fault in blank if fault.replace("not translated", "missing") not in missing)]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    writing = parser.parse_args().write
    found: list[str] = []
    for language in LANGUAGES:
        if language == DEFAULT:
            continue
        if writing:
            made = wanted(language)
            with _file(language).open("wb") as file:
                write_po(file, made, width=0, omit_header=False, sort_output=True, no_location=True)
        found += faults(language)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


def _committed(language: str) -> Catalog:
    return read_po(io.BytesIO(_file(language).read_bytes()), locale=language)


def _file(language: str) -> Path:
    return FOLDER / f"{language}.po"


if __name__ == "__main__":
    sys.exit(main())
