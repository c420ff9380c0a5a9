"""Brings images into a collection: from folders, in parallel."""
