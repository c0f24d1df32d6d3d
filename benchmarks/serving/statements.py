"""Whose statements were they? Every statement that PostgreSQL ran, by the program that sent it.

PostgreSQL writes a statement into its log before it runs it; each program of the bench has an `application_name` of its
own. So what polls cause, what happens by the clock and what the bench itself asks are counted apart, none subtracted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

OPTIONS = ("-c", "log_statement=all", "-c", "log_line_prefix=%p|%a|")
"""What PostgreSQL is started with."""

SERVER, WORKER, BENCH = "server", "worker", "bench"
_LINE = re.compile(r"^(\d+)\|([^|]*)\|LOG:  (?:statement|execute [^:]*): (\w+)(.*)")
_BEGIN, _ENDS = "BEGIN", ("COMMIT", "ROLLBACK")
_WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True)
class Asked:
    """What one program asked: transactions, statements within them, those of them that write."""

    transactions: int = 0
    statements: int = 0
    writes: int = 0
    texts: tuple[str, ...] = ()


@dataclass
class _Open:
    inside: dict[str, bool] = field(default_factory=dict)  # by backend
    transactions: Counter[str] = field(default_factory=Counter)  # by program, as the others
    statements: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    texts: dict[str, list[str]] = field(default_factory=dict)


class StatementLog:
    """The log of a PostgreSQL that was started with `OPTIONS`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """This moment, as a place in the log."""
        return self._path.stat().st_size

    def between(self, begun: int, ended: int) -> dict[str, Asked]:
        """What each program asked between two moments; backends stand outside of a transaction at the first."""
        with self._path.open("rb") as file:
            file.seek(begun)
            lines = file.read(ended - begun).decode(errors="replace").splitlines()
        seen = _Open()
        for line in lines:
            found = _LINE.match(line)
            if found:
                _count(seen, *found.groups())
        return {
            name: Asked(seen.transactions[name], seen.statements[name], seen.writes[name], tuple(seen.texts[name]))
            for name in seen.texts
        }


def _count(seen: _Open, backend: str, program: str, word: str, rest: str) -> None:
    """One statement; what stands outside of BEGIN is a transaction of its own (a pool's ping is)."""
    texts, word = seen.texts.setdefault(program, []), word.upper()
    inside = seen.inside.get(backend, False)
    seen.inside[backend] = word == _BEGIN or (inside and word not in _ENDS)
    seen.transactions[program] += word == _BEGIN or (not inside and word not in _ENDS)
    if word in (_BEGIN, *_ENDS):
        return
    seen.statements[program] += 1
    seen.writes[program] += word in _WRITES
    texts.append((word + rest)[:200])
