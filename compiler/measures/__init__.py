"""What reports, the HTML page and the perf tables derive from a command stream and its timing estimate.

Invariant: everything is read from the stream and the specification, so a program of another compiler version can be
measured too; nothing here decides how a program is compiled.
"""
