"""Compiler passes, one idea a file; ``pipeline`` holds their order."""
