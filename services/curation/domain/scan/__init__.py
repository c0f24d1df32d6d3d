"""Exact DBSCAN of many points without holding neighbourhoods.

`layout.py` puts points into blocks, `pairs.py` says which pairs lie within eps, `candidates.py` leaves out pairs that
cannot, `growth.py` turns pairs into clusters, `clusters.py` runs them, `audit.py` checks the outcome by brute force.
Invariant: every pair left out is proven to lie farther apart than eps; the index costs time, never an edge.
"""
