"""`cbir train`, `cbir rank`, `cbir grade`."""
