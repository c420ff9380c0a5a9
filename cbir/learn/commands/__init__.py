"""`cbir train`, `cbir grade`."""
