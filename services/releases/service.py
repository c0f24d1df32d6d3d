"""What the releases service is made of in this process: clock, keys, update repository, object store.

The one place that reads settings; everything else gets these by argument or calls the functions below.
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import text
from sqlalchemy.orm import Session

from contracts.clock import Clock, clock_from_environment
from contracts.state import public_text
from contracts.state_keys import STATE_KEY_TARGET
from services.kit.settings import settings
from services.kit.storage import ObjectStore, store
from services.releases.keys import FileKeyStore, KeyStore
from services.releases.tuf_repository import UpdateRepository
from services.releases.wrapping_keys import FileWrappingKeys, GivenWrappingKeys, WrappingKeys


def keys() -> KeyStore:
    """The signing keys of this platform."""
    return FileKeyStore(settings().state_dir / "keys" / "releases")


def wrapping_keys() -> WrappingKeys:
    """The master keys that wrap the content keys of sealed bundles. Raises KeyUnusable."""
    given = settings().content_keys.get_secret_value()
    return GivenWrappingKeys(given) if given else FileWrappingKeys(settings().state_dir / "keys" / "releases")


def seals_bundles() -> bool:
    """Whether new bundles are published sealed."""
    policy = settings().bundle_encryption
    return policy == "required" or (policy == "auto" and bool(wrapping_keys().generations))


def objects() -> ObjectStore:
    """The object store that holds the update repository."""
    return store()


@lru_cache(maxsize=1)
def clock() -> Clock:
    """The clock that rollouts think in."""
    return clock_from_environment()


def needs_second_person() -> bool:
    """True where a rollout starts only after somebody else than its maker approved it."""
    return settings().four_eyes


def writable_repository(session: Session) -> UpdateRepository:
    """The repository, created on first use, locked for writing until the transaction ends."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext('releases.repository'))"))
    repository = UpdateRepository(objects(), keys())
    if not repository.exists():
        repository.create()
        repository.add_target(STATE_KEY_TARGET, _state_key_document(), {"kind": "state-key"})
    return repository


def readable_repository(session: Session) -> UpdateRepository:
    """The repository for reading; created (and then locked) only when it does not exist yet."""
    repository = UpdateRepository(objects(), keys())
    return repository if repository.exists() else writable_repository(session)


def _state_key_document() -> bytes:
    public = public_text(keys().state_key().public_key())
    return f'{{"keytype":"ed25519","public":"{public}"}}'.encode()
