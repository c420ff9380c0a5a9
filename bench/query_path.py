"""Files of the project whose functions run for a query, and how often it enters each room.


A room is a folder of `cbir`, `cbir/store` or `service`. It is
entered when a function of it is called by one of another room.

    python -m bench.query_path COLLECTION IMAGE [--rerank eprf] [--http] [--list]
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("cbir", "indexer", "service")


@dataclass
class QueryPath:
    """Files and rooms of a query. files: in the order of their first call. entries: by room."""

    files: dict[str, int] = field(default_factory=dict)
    entries: Counter[str] = field(default_factory=Counter)

    def rooms(self) -> set[str]:
        """Return the rooms that the query passes through."""
        return set(self.entries)


def room_of(file: str) -> str:
    """Return the room of a file, named by its path from the root of the project."""
    folders = file.split("/")[:-1]
    return "/".join(folders[: 3 if folders[:2] == ["cbir", "store"] else 2])


def trace_query(search: Callable[[], Any]) -> QueryPath:
    """Run `search` in this thread, and return the files of the project whose functions it calls.

    What Python runs by itself does not count: a module on import, the body of a class, comprehensions.
    """
    path, names = QueryPath(), dict[str, str | None]()

    def file_of(frame: FrameType) -> str | None:
        name = frame.f_code.co_filename
        if name not in names:
            relative = Path(name).relative_to(ROOT).as_posix() if name.startswith(f"{ROOT}/") else ""
            names[name] = relative if relative.split("/")[0] in PACKAGES else None
        return names[name]

    def caller_of(frame: FrameType | None) -> str | None:
        while frame is not None and file_of(frame) is None:
            frame = frame.f_back
        return None if frame is None else file_of(frame)

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<") or (file := file_of(frame)) is None:
            return
        if not frame.f_code.co_flags & 2:  # not optimized: the body of a module or a class
            return
        path.files[file] = path.files.get(file, 0) + 1
        caller = caller_of(frame.f_back)
        if caller is None or room_of(caller) != room_of(file):
            path.entries[room_of(file)] += 1

    sys.setprofile(note)
    try:
        search()
    finally:
        sys.setprofile(None)
    return path
