"""`edgeloop claims`: may this text be published?

    edgeloop claims lint notes.md store.zh.txt                      words and test conditions
    edgeloop claims lint notes.md --archive evidence.tar            and citations, without a platform
    edgeloop claims rules                                           what is looked for

Exit status: 0 no error, 1 errors (with --strict: or warnings), 2 wrong use.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from services.claims import proofs
from services.claims.archive import ArchiveError
from services.claims.domain.lint import CITATION, Finding, Proof, lint
from services.claims.domain.rules import Rulebook, RulesError, Severity
from services.claims.limits import TEXTS
from services.claims.rulebook import SHIPPED, read_rules
from services.kit.operator_cli import EXIT_USAGE, JsonOption, TokenOption, UrlOption, fail, platform_client

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Wording of release notes and store texts.",
)
EXIT_FINDINGS = 1
RulesOption = Annotated[Path, typer.Option("--rules", help="Rule file (TOML) instead of the one that ships.")]


@app.callback()
def claims() -> None:
    """Wording of release notes and store texts."""


@app.command(
    "lint",
    epilog="Examples: edgeloop claims lint notes.md | edgeloop claims lint - < notes.md | "
    "edgeloop claims lint notes.md --archive evidence.tar --strict --json",
)
def lint_command(
    files: Annotated[list[str], typer.Argument(help="Texts, UTF-8; - is standard input.")],
    rules: RulesOption = SHIPPED,
    archive: Annotated[Path | None, typer.Option(help="Follow citations into this exported archive.")] = None,
    url: UrlOption = "",
    token: TokenOption = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find absolute words, numbers without a test condition, and numbers without evidence, in Chinese and English.

    Citations `[evidence: ID]` are followed where --archive, or --url and --token, say where evidence is kept.
    """
    book = _rules(rules)
    texts = {name: _text(name) for name in files}
    known = _proofs(texts, book, archive, url, token)
    now = datetime.now(UTC)
    found = {name: lint(text, book, known, now)[: TEXTS.findings] for name, text in texts.items()}
    every = [finding for findings in found.values() for finding in findings]
    errors = sum(finding.severity is Severity.ERROR for finding in every)
    ok = errors == 0 and not (strict and every)
    if as_json:
        print(json.dumps(_document(found, book, ok, errors, len(every) - errors, known is not None), indent=2))
    else:
        _print(found, errors, len(every) - errors)
    if not ok:
        raise typer.Exit(EXIT_FINDINGS)


@app.command("rules", epilog="Examples: edgeloop claims rules | edgeloop claims rules --rules mine.toml --json")
def rules_command(rules: RulesOption = SHIPPED, as_json: JsonOption = False) -> None:
    """Show what is looked for; a rule file of your own is checked by this."""
    book = _rules(rules)
    if as_json:
        print(json.dumps([asdict(rule) | {"pattern": rule.pattern.pattern} for rule in book.wording], indent=2))
        return
    table = Table("rule", "severity", "message", "remedy")
    for rule in book.wording:
        table.add_row(rule.id, rule.severity.value, rule.message, rule.remedy)
    Console().print(table)


def _rules(path: Path) -> Rulebook:
    try:
        return read_rules(path)
    except (RulesError, OSError) as error:
        fail(str(error), EXIT_USAGE)


def _text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read(TEXTS.text_bytes + 1) if name == "-" else _bounded(Path(name))
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(f"{name} is not UTF-8 (byte {error.start}); save it as UTF-8", EXIT_USAGE)
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}", EXIT_USAGE)
    if len(data) > TEXTS.text_bytes:
        fail(f"{name} has more than {TEXTS.text_bytes:,} bytes; lint it in parts", EXIT_USAGE)
    return text


def _bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(TEXTS.text_bytes + 1)


def _proofs(
    texts: Mapping[str, str], book: Rulebook, archive: Path | None, url: str, token: str
) -> Mapping[str, Proof] | None:
    cited = {name for text in texts.values() for name in CITATION.findall(text)}
    if archive is not None:
        try:
            return proofs.of_archive(archive, book)
        except (ArchiveError, OSError) as error:
            fail(str(error), EXIT_USAGE)
    if url and token and cited:
        with platform_client("claims", Path(), url, token) as platform:
            return proofs.of_platform(platform, cited, book)
    return None


def _document(
    found: Mapping[str, list[Finding]], book: Rulebook, ok: bool, errors: int, warnings: int, followed: bool
) -> dict[str, object]:
    return {
        "ok": ok,
        "errors": errors,
        "warnings": warnings,
        "rules_version": book.version,
        "citations_followed": followed,
        "files": [
            {"path": name, "findings": [asdict(finding) for finding in findings]} for name, findings in found.items()
        ],
    }


def _print(found: Mapping[str, list[Finding]], errors: int, warnings: int) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for name, findings in found.items():
        for finding in findings:
            place = f"{name}:{finding.line}:{finding.column}"
            console.print(f"{place}: {finding.severity.value} {finding.rule}: {finding.message}: {finding.text!r}")
            console.print(f"    {finding.remedy}")
    console.print(f"{errors} errors, {warnings} warnings in {len(found)} texts")
