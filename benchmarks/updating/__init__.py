"""What `edgeloop bench updates` measures."""
