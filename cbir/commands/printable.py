"""Text that a terminal shows and does not obey."""

import re

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return `text` with a sign for each character that controls a terminal: names of files may have them."""
    return CONTROL.sub("\ufffd", text)
