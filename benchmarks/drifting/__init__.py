"""What `edgeloop bench drift` measures, one family of figures a module."""
