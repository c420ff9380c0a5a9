"""Kinds of queries that Python API and HTTP client take: files, contents, arrays, image ids, or several of them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ID = "id:"


def list_examples(query: Any) -> list[Any]:
    """Return the examples of a query: those of a list or tuple, none of None, or itself."""
    if query is None:
        return []
    is_several = isinstance(query, Sequence) and not isinstance(query, str | bytes | bytearray)
    return list(query) if is_several else [query]


def image_id_of(example: Any) -> str | None:
    """Return the image id that a text stands for: `id:ID`, or a text that names no file; None for other examples."""
    if not isinstance(example, str):
        return None
    if example.startswith(ID):
        return example.removeprefix(ID)
    return None if is_file(example) else example


def list_conditions(where: str | Sequence[str]) -> list[str]:
    """Return label conditions as a list; a text is a single one."""
    return [where] if isinstance(where, str) else list(where)


def is_array(example: Any) -> bool:
    """Return whether an object has samples: an array of NumPy, an image of Pillow, a tensor of torch."""
    return hasattr(example, "__array__") or hasattr(example, "__array_interface__")


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file or folder; no text is too long or too odd to ask."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
