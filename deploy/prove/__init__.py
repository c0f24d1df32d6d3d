"""Bring up docker-compose.yml with podman where neither Docker nor a registry is, and hold it against its promises."""
