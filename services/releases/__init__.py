"""Releases: who may run what. Update repository, staged rollouts, automatic verdicts, kill switch."""
