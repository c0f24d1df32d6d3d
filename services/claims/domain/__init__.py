"""Rules for wording, without input or output."""
