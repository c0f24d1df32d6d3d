"""The scan in parts, for machines beside each other: cells with a halo, each scanned alone, then put together.

`cells.py` cuts, `parts.py` scans one cell and merges all, `executor.py` says who runs the parts.
Invariant: the labels are those of one scan of all points, whatever the number of cells and wherever they ran.
"""
