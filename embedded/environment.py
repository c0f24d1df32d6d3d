"""The environment of the children: where everything is, secrets, and no calls home.

Only what a child needs of our own environment is passed on: the usual system variables, EDGELOOP_* and OTEL_*.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from embedded.state import PlatformInfo, StateFolder

ROOT = Path(__file__).resolve().parents[1]
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
PASSED_PREFIXES = ("EDGELOOP_", "OMP_", "OPENBLAS_", "MKL_", "OTEL_")
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PREFECT_LOGGING_COLORS": "false",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "NO_COLOR": "1",
    "GIT_PYTHON_REFRESH": "quiet",
    "PYTHONUNBUFFERED": "1",
}


def environment(folder: StateFolder, info: PlatformInfo, more: Mapping[str, str]) -> dict[str, str]:
    """Variables of every child; `more` wins."""
    own = {key: value for key, value in os.environ.items() if key in PASSED_ON or key.startswith(PASSED_PREFIXES)}
    return {
        **own,
        **QUIET,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "EDGELOOP_DATABASE_URL": info.database_url,
        "EDGELOOP_REDIS_URL": info.redis_url,
        "EDGELOOP_STATE_DIR": str(folder.root),
        "EDGELOOP_BASE_URL": info.base_url,
        "EDGELOOP_SERVICE_TOKEN": info.service_token,
        "EDGELOOP_PREFECT_API_URL": info.prefect_api_url,
        "EDGELOOP_MLFLOW_TRACKING_URI": info.mlflow_url,
        "PREFECT_HOME": str(folder.root / "prefect"),
        "PREFECT_API_URL": info.prefect_api_url,
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "MLFLOW_TRACKING_URI": info.mlflow_url,
        **more,
    }
