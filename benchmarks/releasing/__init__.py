"""Whole releases in simulated time: reports drawn for every device at once, decisions by the product's own code."""
