"""The quality net: names a degradation, predicts the quality loss, and forgets what is in the picture."""
