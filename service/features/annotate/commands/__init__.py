"""`cbir annotate`."""
