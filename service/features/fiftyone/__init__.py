"""Folders that other programs read."""
