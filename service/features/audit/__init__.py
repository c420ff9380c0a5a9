"""Audit of a collection."""
