"""Suggestion of the name that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches

LIKENESS = 0.7  # of two names, see difflib.SequenceMatcher.ratio


def close_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`; None if none is."""
    matches = get_close_matches(name, list(names), 1, LIKENESS)
    return matches[0] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" for the end of a sentence about an unknown name, or "" if no name is like it."""
    close = close_name(name, names)
    return f"; did you mean {close!r}?" if close else ""
