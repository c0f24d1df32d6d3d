"""Telemetry: takes what devices tell, once, and passes it on after a durable write."""
