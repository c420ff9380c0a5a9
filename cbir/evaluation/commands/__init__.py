"""`cbir evaluate`, `cbir dataset`, `cbir phantoms`."""
