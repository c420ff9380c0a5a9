"""Describe images on the nodes of a Ray cluster. This machine alone writes to the collection."""
