"""Explanations of why an image is similar to a query."""
