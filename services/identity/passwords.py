"""Passwords: which are good enough, and argon2id hashes that are checked a few at a time.

Invariants: the same work is done for a name that does not exist as for one that does; a process holds at most
`PASSWORD.at_once` hashes in memory (64 MiB each).
"""

from __future__ import annotations

import itertools
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from services.identity.errors import WeakPassword
from services.identity.limits import PASSWORD
from services.kit.problems import FieldError, Unavailable

HASHER = PasswordHasher()
COMMON = frozenset(
    "password passwort passw admin administrator root changeme letmein welcome secret edgeloop qwerty qwertz qwertyuiop"  # noqa: SIM905
    " qwertzuiop asdfghjkl iloveyou dragon monkey superman trustno abcdefghijkl abc".split()
)
_places = threading.BoundedSemaphore(PASSWORD.at_once)


def check_strength(password: str, name: str) -> None:
    """Raise WeakPassword for one that is short, of few different characters, or a common word with numbers."""
    letters = "".join(character for character in password.casefold() if character.isalpha())
    plain_name = "".join(character for character in name if character.isalpha())
    if len(password) < PASSWORD.shortest:
        _refuse(f"it has {len(password)} characters; use {PASSWORD.shortest} or more, a few words say")
    if len(password) > PASSWORD.longest:
        _refuse(f"it has more than {PASSWORD.longest} characters")
    if len(set(password.casefold())) < 5:
        _refuse("it has fewer than 5 different characters")
    if letters in COMMON or (plain_name and letters == plain_name) or _is_a_run(password):
        _refuse("it is a well-known word, the account's name or a row of the keyboard, with numbers around it at most")


def hash_password(password: str) -> str:
    """The argon2id hash, with its parameters and salt."""
    with _a_place():
        return HASHER.hash(_normal(password))


def verify(password: str, known_hash: str | None) -> bool:
    """Whether the password fits. Without a hash the same work is done on a stand-in, and the answer is no."""
    stand_in = _stand_in(HASHER)
    with _a_place():
        try:
            HASHER.verify(known_hash or stand_in, _normal(password))
        except (VerificationError, InvalidHashError):
            return False
    return known_hash is not None


def outdated(known_hash: str) -> bool:
    """Whether the hash was made with weaker parameters than today's."""
    return HASHER.check_needs_rehash(known_hash)


@lru_cache(maxsize=4)
def _stand_in(hasher: PasswordHasher) -> str:
    return hasher.hash("nobody has this password")


@contextmanager
def _a_place() -> Iterator[None]:
    if not _places.acquire(timeout=PASSWORD.wait_s):
        raise Unavailable("many people sign in at this moment; try again in a few seconds")
    try:
        yield
    finally:
        _places.release()


def _normal(password: str) -> str:
    return unicodedata.normalize("NFKC", password)


def _is_a_run(password: str) -> bool:
    steps = {ord(after) - ord(before) for before, after in itertools.pairwise(password)}
    return len(steps) == 1


def _refuse(why: str) -> None:
    raise WeakPassword(f"choose another password: {why}", errors=[FieldError("/password", why)])
