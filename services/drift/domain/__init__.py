"""Rules of drift without I/O: accumulate, compare, judge, decide. Needs NumPy and SciPy only."""
