"""The annotation server: a person says which of two images is more severe, a ranker learns meanwhile."""
