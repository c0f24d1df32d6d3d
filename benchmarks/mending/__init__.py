"""What `edgeloop bench healing` measures."""
