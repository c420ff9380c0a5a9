"""Creation of a collection, and every change of it."""
