"""Curation: clusters of hard examples, and how well the training set covers them."""
