"""Evidently's embedding methods on the frames that our reports summarise."""
