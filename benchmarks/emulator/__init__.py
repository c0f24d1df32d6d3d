"""What the bench of the emulated NPU measures; `benchmarks/npu.py` puts it together."""
