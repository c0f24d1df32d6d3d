"""Reads a rule file: the one that ships, or the user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from services.claims.domain.rules import Rulebook, RulesError, parse
from services.claims.limits import TEXTS

SHIPPED = Path(__file__).with_name("rules.toml")


def read_rules(path: Path = SHIPPED) -> Rulebook:
    """The rulebook in `path`; raises RulesError with what is wrong, OSError when it cannot be read."""
    if path.stat().st_size > TEXTS.rules_bytes:
        raise RulesError(f"{path} is larger than {TEXTS.rules_bytes:,} bytes; that is no rule file")
    try:
        return parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RulesError(f"{path} is not TOML: {error}") from error
    except RulesError as error:
        raise RulesError(f"{path}: {error}") from error
