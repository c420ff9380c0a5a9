"""Whom the history names for a change."""

from service.access.check import who


def name() -> str:
    """The token's id, which names nobody by itself; "service" where none was needed."""
    found = who()
    return f"token {found.token.token_id}" if found else "service"
