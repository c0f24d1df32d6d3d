"""python-tuf's updater with its files behind the agent's own disk.

python-tuf writes trusted metadata without a flush; a device that loses power could forget the newest version that it
saw and take an older one. Here every metadata file is replaced whole and flushed, like everything else that the agent
keeps, and a test proves that nothing of the agent writes past the disk.
"""

from __future__ import annotations

from pathlib import Path

from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

from edge_agent.disk import Disk


class DiskUpdater(Updater):
    """Overrides where python-tuf keeps metadata, nothing of what it trusts."""

    def __init__(
        self,
        folder: Path,
        base_url: str,
        fetcher: FetcherInterface,
        config: UpdaterConfig,
        root: bytes,
        disk: Disk,
    ) -> None:
        self._disk = disk
        disk.make_directory(folder)
        super().__init__(str(folder), base_url, fetcher=fetcher, config=config, bootstrap=root)

    def _persist_root(self, version: int, data: bytes) -> None:
        folder = Path(self._dir, "root_history")
        self._disk.make_directory(folder)
        self._persist_file(str(folder / f"{version}.root.json"), data)

    def _persist_file(self, filename: str, data: bytes) -> None:
        path = Path(filename)
        try:
            if self._disk.read(path, len(data) + 1) == data:
                return
        except OSError:
            pass
        self._disk.replace(path, data)

    def _update_root_symlink(self) -> None:
        """Nothing: the trusted root comes from the device's identity, never from this folder."""
