"""HTML tables and lists; every cell is escaped unless it is a ``Raw``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Raw(str):
    """Text that is HTML already."""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table in a box that scrolls; the first ``words`` columns are left-aligned, the others are numbers."""
    cells = "".join(f'<th scope="col"{_class(index, words)}>{_text(head)}</th>' for index, head in enumerate(heads))
    body = "".join(_row(row, words) for row in rows)
    if not body:
        return f'<p class="dim">{escape(caption)}: none.</p>'
    name = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{name}"><table><caption>{name}'
        f"</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def pairs(items: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean."""
    inside = "".join(f"<div><dt>{_text(term)}</dt><dd>{_text(value)}</dd></div>" for term, value in items)
    return f'<dl class="answers">{inside}</dl>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Colour keys: class and meaning."""
    inside = "".join(f'<li><span class="key {name}"></span>{escape(meaning)}</li>' for name, meaning in entries)
    return f'<ul class="legend">{inside}</ul>'


def folded(summary: str, *content: str, opened: bool = False) -> str:
    """A part that opens on demand, without a script."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{_text(summary)}</summary>{''.join(content)}</details>"


def paragraph(content: str, class_: str = "") -> str:
    """A paragraph."""
    return f'<p class="{class_}">{_text(content)}</p>' if class_ else f"<p>{_text(content)}</p>"


def _row(row: Sequence[str], words: int) -> str:
    first = f'<th scope="row">{_text(row[0])}</th>'
    rest = (f"<td{_class(index, words)}>{_text(cell)}</td>" for index, cell in enumerate(row[1:], 1))
    return f"<tr>{first}{''.join(rest)}</tr>"


def _class(index: int, words: int) -> str:
    return "" if index < words else ' class="number"'


def _text(content: str) -> str:
    return content if isinstance(content, Raw) else escape(content)
