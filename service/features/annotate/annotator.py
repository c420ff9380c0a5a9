"""Name of the person who judges."""

from cbir.errors import InvalidInput
from service.access.caller import current_caller

MAX_LENGTH = 100  # characters, as for the name of a token


def annotator_name(entered: str | None) -> str:
    """Return the caller's name, or else the id of its token, or the `entered` name if no token is needed.

    Raises InvalidInput if the name is missing, too long or not printable.
    """
    caller = current_caller()
    if caller and caller.token:
        return caller.token.name.strip() or caller.token.token_id
    if caller and caller.user:
        return caller.user
    name = (entered or "").strip()
    if not name or len(name) > MAX_LENGTH or not name.isprintable():
        raise InvalidInput(f"who: the name of the annotator, 1 to {MAX_LENGTH} printable characters")
    return name


def logged_in_annotator() -> str | None:
    """Return the name of the caller who is logged in; None if no token is needed."""
    return annotator_name(None) if current_caller() else None
