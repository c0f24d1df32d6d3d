"""Settings of a platform process, read once from `EDGELOOP_*`.

One typed class for every process (API, worker, beat). Secrets are `SecretStr`, so that a log line or a traceback
shows asterisks. `settings()` is cached; tests call `settings.cache_clear()` after they changed the environment.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

SECRETS_VARIABLE = "EDGELOOP_SECRETS_DIR"
"""A folder of files named like the variables (`edgeloop_redis_url`), for what must not stand in an environment."""


class Settings(BaseSettings):
    """Where the platform's outside world is. Defaults suit a database and a Redis on this machine."""

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_", extra="ignore", frozen=True)

    database_url: str = "postgresql+psycopg://postgres@127.0.0.1:5432/edgeloop"
    redis_url: str = "redis://127.0.0.1:6379/0"
    storage_url: str = Field("", description="file:///folder or s3://bucket; empty: the folder objects in state_dir")
    state_dir: Path = Path(".edgeloop")
    base_url: str = "http://127.0.0.1:8080"
    service_token: SecretStr = SecretStr("")
    content_keys: SecretStr = Field(
        SecretStr(""), description="master keys of sealed bundles, 1:<base64>,2:<base64>; empty: files in state_dir"
    )
    bundle_encryption: str = Field(
        "auto",
        pattern="^(auto|required|off)$",
        description="auto: bundles are sealed when there is a master key; required: nothing is released plain; off",
    )
    s3_access_key: SecretStr = SecretStr("")
    s3_secret_key: SecretStr = SecretStr("")
    prefect_api_url: str = "http://127.0.0.1:4200/api"
    mlflow_tracking_uri: str = ""
    retrain_deployment: str = "retrain/retrain"
    four_eyes: bool = Field(False, description="a rollout starts only after a second person approved it")

    database_pool: int = Field(10, ge=1, le=100)
    statement_timeout_s: int = Field(30, ge=1, le=3600)
    metrics_port: int = Field(0, ge=0, le=65_535, description="port of its own for GET /metrics; 0: none")
    metrics_host: str = "127.0.0.1"
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @property
    def objects_url(self) -> str:
        """`storage_url`, or the folder `objects` inside `state_dir` where none is set."""
        return self.storage_url or (self.state_dir.absolute() / "objects").as_uri()


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read on the first call: from the environment, else from files of EDGELOOP_SECRETS_DIR."""
    folder = os.environ.get(SECRETS_VARIABLE)
    return Settings(_secrets_dir=folder) if folder else Settings()
