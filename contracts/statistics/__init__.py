"""Statistics that devices accumulate and the platform merges."""

from contracts.statistics.drf1 import DriftReport, ReportError, decode_report, encode_report
from contracts.statistics.moments import Moments
from contracts.statistics.observer import ObserverError, ObserverParameters

__all__ = [
    "DriftReport",
    "Moments",
    "ObserverError",
    "ObserverParameters",
    "ReportError",
    "decode_report",
    "encode_report",
]
