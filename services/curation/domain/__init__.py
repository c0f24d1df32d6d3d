"""Rules of curation without I/O: cluster, cap, keep, cover. Needs NumPy and scikit-learn only."""
