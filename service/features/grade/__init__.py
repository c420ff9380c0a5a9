"""Grades of query images."""
