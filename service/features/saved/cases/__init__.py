"""Saved cases: what callers see of them, stored queries, and teaching files."""
