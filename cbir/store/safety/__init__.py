"""Locks, checksums, logs, and how damage is detected."""
