"""Rows into tables by COPY: text lines, values made safe, progress told by the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import psycopg
from psycopg import sql

BLOCK = 2_000
Row = Sequence[object]
Told = Callable[[int], None]
"""Told how many rows were sent since it was told last."""


def copy(connection: psycopg.Connection, table: str, columns: Sequence[str], rows: Iterable[Row], told: Told) -> int:
    """Send rows into `schema.table`; returns how many. None is NULL, bytes go as hexadecimal, lists as arrays."""
    names = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(*table.split(".")), names)
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        for block in _blocks(iter(rows)):
            stream.write("".join(block))
            count += len(block)
            told(len(block))
    return count


def _blocks(rows: Iterator[Row]) -> Iterator[list[str]]:
    while block := ["\t".join(map(_text, row)) + "\n" for row in islice(rows, BLOCK)]:
        yield block


def _text(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.replace("\\", "\\\\") if "\\" in value else value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\\\x" + value.hex()
    if isinstance(value, list | tuple):
        return "{" + ",".join(f'"{one}"' if isinstance(one, str) else str(one) for one in value) + "}"
    return str(value)
