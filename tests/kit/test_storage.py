"""Objects stay, keys stay inside, a full disk has a name."""

from __future__ import annotations

import errno
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import GenericError

from services.kit.storage import ObjectMissing, ObjectStore


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore((tmp_path / "objects").as_uri())


def test_an_object_comes_back_as_it_was_put(store: ObjectStore) -> None:
    store.put("bundles/a.elb", b"bytes")
    assert store.get("bundles/a.elb") == b"bytes"
    assert store.size("bundles/a.elb") == 5
    assert store.path("bundles/a.elb").read_bytes() == b"bytes"
    assert store.exists("bundles/a.elb")


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    for ask in (store.get, store.size, store.path):
        with pytest.raises(ObjectMissing, match="nothing/here"):
            ask("nothing/here")
    assert not store.exists("nothing/here")
    store.delete("nothing/here")


@pytest.mark.parametrize("key", ["../x", "a/../b", "/etc/passwd", "a//b", "a\nb", "", ".", "a/.", "x" * 600])
def test_a_key_cannot_leave_the_store(store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        store.put(key, b"")


def test_a_full_disk_is_an_error_with_its_number(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise GenericError("Generic LocalFileSystem error: No space left on device (os error 28)")

    monkeypatch.setattr(obstore, "put", full)
    with pytest.raises(OSError, match="No space") as caught:
        store.put("a", b"")
    assert caught.value.errno == errno.ENOSPC
