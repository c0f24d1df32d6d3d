"""Independent jobs of a flow, run here, in processes beside it or by a Dask cluster: the same bytes each time.

A job is a function of files and settings (`job`). What it returns and what it writes lies in the run's folder under a
name that its inputs decide, so a finished job is never done twice (`work`). Whoever runs it, it has one thread and a
seed of its own (`seat`).
"""
