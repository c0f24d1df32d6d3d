"""A platform of the bench's own: PostgreSQL, Redis and one server process on loopback, ended with the block."""
