"""Parts of `edgeloop bench nas`: the search held against published problems, random search and whole networks."""
