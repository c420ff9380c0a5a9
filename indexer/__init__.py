"""Brings images into a collection: from folders, archives and object stores, in parallel."""
