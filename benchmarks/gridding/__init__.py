"""Grids of small models: golden interpreter and emulated device against ONNX Runtime, case by case."""
