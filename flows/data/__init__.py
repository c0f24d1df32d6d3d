"""Video corpus, degradations and the (low resolution, target) pairs made from them. No torch in this folder."""
