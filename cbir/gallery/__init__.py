"""Vectors in memory: distances, ranking lists, top-k, k-NN graph, whitening."""
