"""The operators' page: server-rendered, a client of the other services' APIs with the operator's own token."""
