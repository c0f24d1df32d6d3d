"""Learning tasks. Each folder holds one task: model family, training, metrics."""
