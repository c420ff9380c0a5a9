"""Text files as they come: any line ending, with or without byte order mark, in UTF-8 or an older encoding."""

import codecs
import re
from pathlib import Path

from cbir.errors import InvalidInput

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: Path) -> tuple[list[str], str | None]:
    """Return the lines, and a remark if the file is not UTF-8. Raises InvalidInput if it is not a text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith(MARKS):
        return _lines(data.decode("utf-16", errors="replace")), f"{path.name} is UTF-16"
    if b"\0" in data:
        raise InvalidInput(f"{path} is not a text file")
    try:
        return _lines(data.decode("utf-8-sig")), None
    except UnicodeDecodeError:
        return _lines(data.decode("latin-1")), f"{path.name} is not UTF-8 and was read as Latin-1"


def _lines(text: str) -> list[str]:
    # str.splitlines would also split at a Latin-1 x85, which Windows writes for an ellipsis
    return re.split(r"\r\n|\r|\n", text)
