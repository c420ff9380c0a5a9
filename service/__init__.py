"""Answers queries over HTTP and shows them on a page."""
