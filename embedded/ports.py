"""Loopback ports: find free ones, and tell when a wanted one is taken."""

from __future__ import annotations

import socket

from embedded.errors import PortInUse

HOST = "127.0.0.1"


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """`count` different free loopback ports."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def demand_free(port: int) -> None:
    """Raise PortInUse when something listens on `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortInUse(f"port {port} on {HOST} is in use; stop what listens there or choose --port") from error


def listens(port: int) -> bool:
    """Whether something accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
