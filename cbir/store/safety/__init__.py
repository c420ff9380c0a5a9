"""Logs, last good copies, and how damage and loss are detected."""
