"""Files by paths that another system has spelled: with backslashes, or with accents in another Unicode form."""

import os
import unicodedata
from collections.abc import Callable
from functools import lru_cache


def existing_path(absolute: Callable[[str, str], str], base: str, path: str) -> str:
    """Return the absolute path of a file, in the spelling that exists; as `absolute` has it where none does.

    Parameters
    ----------
    absolute : callable
        Makes a path relative to `base` absolute.
    base : str
        Folder that paths are relative to.
    path : str
        Path of a manifest.
    """
    plain = absolute(base, path)
    if path.isascii() and "\\" not in path:  # nearly all of them
        return plain
    for spelled in dict.fromkeys((path, path.replace("\\", "/"))):
        text = absolute(base, spelled)
        match = text if os.path.lexists(text) else _other_form(text)
        if match is not None:
            return absolute(base, match)
    return plain


def _other_form(path: str) -> str | None:
    """Return the path that differs in the Unicode form of its parts alone; None if there is none."""
    match = os.sep
    for part in path.split(os.sep):
        if not part:
            continue
        name = os.path.join(match, part)
        if not os.path.lexists(name):
            other = _names(match, os.stat(match).st_mtime_ns).get(unicodedata.normalize("NFC", part))
            if other is None:
                return None
            name = os.path.join(match, other)
        match = name
    return match


@lru_cache(maxsize=64)
def _names(folder: str, changed: int) -> dict[str, str]:
    """Return the names in a folder, as it is since a time of its last change, by their composed form."""
    try:
        return {unicodedata.normalize("NFC", name): name for name in os.listdir(folder)}
    except OSError:
        return {}
