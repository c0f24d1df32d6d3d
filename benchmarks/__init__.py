"""Benches that hold what was measured against what was promised; `edgeloop bench` lists and runs them."""
