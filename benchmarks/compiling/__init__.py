"""What the bench of the compiler measures and how it becomes figures; `benchmarks/compiler.py` puts it together."""
