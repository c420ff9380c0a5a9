"""Map of a collection."""
