"""Series with change points that people marked, out of river's wheel (BSD-3-Clause); read, never committed."""
