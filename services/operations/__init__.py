"""Operations: what a person or Prometheus wants to know of a whole installation. A composition root beside `app`."""
