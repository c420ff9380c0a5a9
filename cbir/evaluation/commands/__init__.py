"""`cbir evaluate`, `cbir dataset`, `cbir irma`."""
