"""Runs a bundle's networks on frames: backends, the healing machine that picks one, and the trace ring."""
