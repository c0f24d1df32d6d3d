"""`python -m services.operations.exporter`: the readings of the platform as a whole, for Prometheus. One replica.

`GET /metrics` on `EDGELOOP_METRICS_PORT`. Readings are taken at the scrape; one whose source
does not answer is left out and counted in `edgeloop_exporter_failed_readings`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.kit.heartbeat import start as start_heartbeat
from services.kit.logs import configure_logs
from services.kit.metrics import serve
from services.kit.settings import settings
from services.operations.readings import READINGS, Reading, read

FAILED = "edgeloop_exporter_failed_readings"

log = structlog.get_logger(__name__)


class PlatformCollector(Collector):
    """Takes every reading anew at each scrape, one scrape at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        """Names only, so that registering asks neither database nor Redis."""
        return [_family(reading) for reading in READINGS]

    def collect(self) -> Iterator[Metric]:
        """Every reading that its source gave."""
        with self._lock:
            failed = 0
            for reading in READINGS:
                try:
                    rows = list(read(reading))
                except Exception as error:  # whatever a source raises, the other readings are still wanted
                    log.warning("reading_failed", reading=reading.name, error=type(error).__name__)
                    failed += 1
                    continue
                family = _family(reading)
                for labels, value in rows:
                    family.add_metric(labels, value)
                yield family
            yield GaugeMetricFamily(FAILED, "Readings of this scrape whose source did not answer.", value=failed)


def main() -> None:
    """Serve until SIGTERM."""
    configure_logs("exporter", settings().log_level)
    registry = CollectorRegistry()
    registry.register(PlatformCollector())
    if serve("exporter", registry) == 0:
        raise SystemExit("EDGELOOP_METRICS_PORT is 0 or cannot be used; give the exporter a free port, such as 9464")
    start_heartbeat("exporter")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    end.wait()


def _family(reading: Reading) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if reading.counter else GaugeMetricFamily
    return kind(reading.name, reading.help, labels=reading.labels)


if __name__ == "__main__":
    main()
