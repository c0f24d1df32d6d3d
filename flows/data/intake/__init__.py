"""From a folder of somebody's videos to a corpus: what can be used, what cannot and why, who is in it, whose it is."""
