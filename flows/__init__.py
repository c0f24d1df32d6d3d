"""Learning flows: corpus, degradations, networks, training, quantisation and the retrain flow.

Heavy numerics (torch) live here and nowhere else. Imports `contracts` and `compiler` only; services and
devices are reached over HTTP and the lab protocol.
"""
