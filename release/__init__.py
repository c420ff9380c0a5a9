"""Checks that `make release` runs before it builds, and of what it has built."""
