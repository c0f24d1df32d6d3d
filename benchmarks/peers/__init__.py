"""Other tools on our data, and data of other tools, each in an environment of its own; results are committed."""
