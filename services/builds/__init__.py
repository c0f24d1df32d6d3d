"""Builds: a quantised model becomes a bundle, the gate judges it on devices, the evidence is kept."""
