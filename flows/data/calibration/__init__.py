"""Calibration sets: de-identified clips under every fault that a quantised network meets, with a coverage report."""
