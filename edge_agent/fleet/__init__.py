"""Hundreds of light agents in one process: the same `Agent`, frames sampled, nothing composed for a screen.

What they share is what devices behind one wire share: decoded pictures, bundle files, and the bytes of signed
documents. Each device keeps its own identity, slots, outbox and statistics, and verifies everything itself.
"""
