"""Claims: what may be said about the product, and the evidence that what is said was measured."""
