"""Engines compute what one command means on bytes that are already in place; they know nothing of time or
memory.
"""
