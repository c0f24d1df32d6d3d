"""Parts of `edgeloop bench learning`: what the learning part reaches when it really trains, within counted CPU time."""
