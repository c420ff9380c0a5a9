"""Annotation server: people say which of two images is more severe, and a ranker learns from it."""
