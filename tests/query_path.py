"""Files of the project that a query passes through, and the rooms in which they lie."""

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("cbir", "indexer", "service")
FUNCTION = 0x2  # a flag of code objects, CO_NEWLOCALS: bodies of modules have it not


def trace_files(search: Callable[[], Any]) -> list[str]:
    """Run `search`, and return the project's files whose functions it calls in this thread, by their first call."""
    files: dict[str, None] = {}
    paths: dict[CodeType, str | None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in paths:
            paths[code] = path = _path_of(code)
            if path is not None:
                files[path] = None

    sys.setprofile(note)
    try:
        search()
    finally:
        sys.setprofile(None)
    return [*files]


def _path_of(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    if not code.co_flags & FUNCTION or code.co_name.startswith("<") or not path.is_relative_to(ROOT):
        return None
    relative = path.relative_to(ROOT).as_posix()
    return relative if relative.split("/")[0] in PACKAGES else None


def stays(files: list[str]) -> list[str]:
    """Return the rooms that files lie in, in order, each as often as the query comes to it for another file."""
    return [room for room, _ in groupby(files, room_of)]


def room_of(file: str) -> str:
    """Return the room of a file: the first two folders of its path, in the store three."""
    folders = file.split("/")[:-1]
    return "/".join(folders[: 3 if folders[:2] == ["cbir", "store"] else 2])
