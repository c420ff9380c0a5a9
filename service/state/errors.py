"""Errors of the state database."""

from cbir.errors import CbirError


class StateUnavailable(CbirError):
    """The state database cannot be opened, read or written."""
