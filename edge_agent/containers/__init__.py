"""Test devices in containers of a Docker engine: `edgeloop fleet up --docker N`, `fleet down`."""
