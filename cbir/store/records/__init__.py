"""Records, labels and originals: statements on the tables."""
