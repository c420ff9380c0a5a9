"""Severity of images, learned from pairwise comparisons: the Bayesian ranker and how a collection uses it."""
