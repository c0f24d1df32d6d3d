"""Quantisation-aware training with learned scales, calibration, and exact QDQ ONNX export."""
