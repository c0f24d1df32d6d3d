"""People: accounts, passwords, sessions, API tokens, sign-in at an identity provider."""
