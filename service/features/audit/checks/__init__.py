"""Audit of a collection: duplicates, leaks between the parts of a split, other faults of its images and labels."""
