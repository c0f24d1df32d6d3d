"""What `edgeloop bench verdicts` measures, one family of tables a module."""
