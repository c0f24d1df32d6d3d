"""Results of benches that take long, kept by what made them."""
