"""Other compilers on the reference nets, each in an environment of its own; their results are committed."""
