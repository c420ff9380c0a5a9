"""`cbir evaluate irma`."""
