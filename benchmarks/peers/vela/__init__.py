"""Vela (Arm's compiler for Ethos-U NPUs) on the reference nets: `python -m benchmarks.peers.vela.run`."""
