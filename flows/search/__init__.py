"""Incremental architecture search: operator table, sensitivity of stages, NSGA-II over the affected ones."""
