"""Parts of `edgeloop bench dedup`."""
