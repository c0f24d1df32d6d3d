"""Rules of releases without I/O: the rollout's state machine and the plan of its stages."""
