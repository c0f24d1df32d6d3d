"""Which private keys sign the state document now: those of the key store that the table does not say have ended."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.state import public_text
from services.releases import service
from services.releases.keys import KeyUnusable
from services.releases.models import StateKeyRow


def signers(session: Session) -> tuple[Ed25519PrivateKey, ...]:
    """The present key, then the one that follows it where one does. Raises KeyUnusable when every key has ended."""
    store = service.keys()
    present, following = store.state_key(), store.next_state_key()
    ended_at = {row.public: row.ended_at for row in session.scalars(select(StateKeyRow))}
    found = [] if ended_at.get(_text(present)) is not None else [present]
    if following is not None and _text(following) in ended_at and ended_at[_text(following)] is None:
        found.append(following)
    if not found:
        raise KeyUnusable("every key of the state document has ended; restore the key folder from the backup")
    return tuple(found)


def verifiers(session: Session) -> tuple[Ed25519PublicKey, ...]:
    """Their public keys."""
    return tuple(key.public_key() for key in signers(session))


def _text(key: Ed25519PrivateKey) -> str:
    return public_text(key.public_key())
