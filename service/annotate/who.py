"""Who is judging."""

from cbir.errors import InvalidInput
from service.access.check import who

MOST = 100  # characters, as a token's name


def annotator(given: str | None) -> str:
    """The token's name (its id where it has none), or where no tokens are needed what the page says.

    Raises InvalidInput for a name that is missing, too long, or has what cannot be printed.
    """
    found = who()
    if found:
        return found.token.name.strip() or found.token.token_id
    name = (given or "").strip()
    if not name or len(name) > MOST or not name.isprintable():
        raise InvalidInput(f"who: the name of the person who judges, 1 to {MOST} printable characters")
    return name


def known() -> str | None:
    """Who is logged in, where tokens are needed."""
    return annotator(None) if who() else None
