"""Values, files and tables that a collection is made of."""
