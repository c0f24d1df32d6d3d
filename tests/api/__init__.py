"""The whole API at once: every operation fuzzed, every operation against every caller."""
