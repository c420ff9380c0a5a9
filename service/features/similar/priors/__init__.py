"""Other studies of a query's patient."""
