"""The demo on the embedded platform: started for it, ended with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from demo.ground import Access
from embedded.supervisor import Platform


class EmbeddedGround:
    """`Ground` over the embedded platform in a folder of its own."""

    def __init__(self, folder: Path, port: int, environment: Mapping[str, str]) -> None:
        self._platform = Platform(folder, port, environment=environment)

    @property
    def root(self) -> Path:
        return self._platform.folder.root

    @property
    def logs(self) -> str:
        return str(self._platform.folder.logs)

    @property
    def access(self) -> Access:
        info = self._platform.info
        return Access(
            info.base_url, info.prefect_api_url, info.database_url, info.operator_token, info.service_token,
            info.enrolment_token,
        )  # fmt: skip

    def start(self) -> Access:
        self._platform.start()
        return self.access

    def stop(self) -> None:
        self._platform.stop()
