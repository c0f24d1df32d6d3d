"""What rounding to eight bits costs a small x2 net, ours beside other quantisers from the same start."""
