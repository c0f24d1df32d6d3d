"""What two parts of EdgeLoop must agree on: formats, messages, statistics and the clock.

Imports nothing of EdgeLoop; everything else may import it.
"""
